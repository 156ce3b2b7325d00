-- The traces with their sizes and GPU time; `summed` are launches that only sums of a tool's report know.
SELECT
    t.trace,
    t.kind,
    t.source,
    t.run,
    t.label,
    t.rank,
    t.device_names AS device,
    t.launches,
    coalesce(r.summed, 0) AS summed,
    t.window_ns,
    t.counted,
    r.total_ns
FROM trace_overview AS t
LEFT JOIN (
    SELECT
        trace_id,
        (sum(total_ns) FILTER (origin = 'launches' OR counted))::BIGINT AS total_ns,
        (sum(n) FILTER (origin <> 'launches' AND counted))::BIGINT AS summed
    FROM kernel_rollups
    WHERE timing = 'timeline'
    GROUP BY trace_id
) AS r USING (trace_id)
ORDER BY t.ingested_at, t.trace;
