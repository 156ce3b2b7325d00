-- The traces with their sizes and GPU time; `busy` comes later.
SELECT t.trace, t.kind, t.source, t.run, t.label, t.rank, t.device_names AS device, t.launches, t.window_ns, t.counted, r.total_ns
FROM trace_overview AS t
LEFT JOIN (
    SELECT trace_id, sum(total_ns)::BIGINT AS total_ns
    FROM kernel_rollups
    WHERE timing = 'timeline' AND origin = 'launches'
    GROUP BY trace_id
) AS r USING (trace_id)
ORDER BY t.ingested_at, t.trace;
