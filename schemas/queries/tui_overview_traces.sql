-- The traces with their sizes and GPU time, from the rollups `whole`; `summed` are launches that only sums of a tool's report know.
-- `counted` tells whether anything of a trace enters sums.
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
    coalesce(r.counted, t.counted) AS counted,
    r.total_ns
FROM trace_overview AS t
LEFT JOIN (
    SELECT
        trace_id,
        bool_or(counted) AS counted,
        (sum(total_ns) FILTER (origin = 'launches' OR counted))::BIGINT AS total_ns,
        (sum(n) FILTER (origin <> 'launches' AND counted))::BIGINT AS summed
    FROM whole
    WHERE timing = 'timeline'
    GROUP BY trace_id
) AS r USING (trace_id)
ORDER BY t.ingested_at, t.trace;
