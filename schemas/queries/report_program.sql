-- What advice depends on: whose GPU it is, and whether PyTorch ran, by the profiler or by operators and kernels of it.
SELECT
    coalesce(  -- rocpd writes AMD, others amd
        (SELECT lower(min(d.vendor)) FROM devices AS d WHERE d.trace_id = t.trace_id),
        CASE WHEN t.source LIKE 'roc%' OR t.source = 'rpd' THEN 'amd' ELSE 'nvidia' END
    ) AS vendor,
    t.source LIKE 'pytorch%' OR EXISTS (
        SELECT 1
        FROM all_rollups AS r
        WHERE r.trace = $trace AND (r.library = 'PyTorch ATen' OR starts_with(r.op, 'aten::'))
    ) AS is_torch,
    t.source LIKE 'pytorch%' AND NOT coalesce(t.has_stacks, false) AS lacks_stacks,
    EXISTS (FROM all_rollups AS r WHERE r.trace = $trace AND r.kind NOT IN ('memcpy', 'memset')) AS has_kernels,
    t.source LIKE 'pytorch%' AND EXISTS (FROM memory_events AS m WHERE m.trace_id = t.trace_id AND m.total_reserved_bytes IS NOT NULL) AS has_memory,
    t.launches
FROM traces AS t
WHERE t.name = $trace;
