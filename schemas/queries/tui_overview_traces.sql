-- The traces with their sizes and GPU time, from the rollups `whole`; `summed` are launches that only sums of a tool's report know.
-- `is_primary` says whether anything of a trace enters sums.
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
    r.trace_id IS NOT NULL OR (t.is_primary AND coalesce(t.launches, 0) = 0) AS is_primary,
    r.total_ns
FROM trace_overview AS t
LEFT JOIN (
    SELECT
        trace_id,
        try_cast(sum(total_ns) AS BIGINT) AS total_ns,
        (sum(n) FILTER (timing = 'summed'))::BIGINT AS summed
    FROM whole
    WHERE timing <> 'profiled'
    GROUP BY trace_id
) AS r USING (trace_id)
ORDER BY t.ingested_at, t.trace;
