-- What advice depends on: whose GPU it is, whether PyTorch ran, by the profiler or by operators and kernels of it, and what else there is to say something of.
SELECT
    coalesce(  -- rocpd writes AMD, others amd
        (SELECT lower(min(d.vendor)) FROM devices AS d WHERE d.trace_id = t.trace_id),
        CASE WHEN t.source LIKE 'roc%' OR t.source = 'rpd' THEN 'amd' ELSE 'nvidia' END
    ) AS vendor,
    t.source LIKE 'pytorch%' OR r.of_torch AS is_torch,
    t.source LIKE 'pytorch%' AND NOT coalesce(t.has_stacks, false) AS lacks_stacks,
    r.has_kernels,
    r.has_softmax,
    r.has_gemv,
    r.is_profiled,
    t.source LIKE 'pytorch%' AND EXISTS (FROM memory_events AS m WHERE m.trace_id = t.trace_id AND m.total_reserved_bytes IS NOT NULL) AS has_memory,
    t.launches
FROM traces AS t
CROSS JOIN (
    SELECT
        count(*) FILTER (library = 'PyTorch ATen' OR starts_with(op, 'aten::')) > 0 AS of_torch,
        count(*) FILTER (kind NOT IN ('memcpy', 'memset')) > 0 AS has_kernels,
        count(*) FILTER (category = 'SOFTMAX') > 0 AS has_softmax,
        count(*) FILTER (category = 'GEMV') > 0 AS has_gemv,
        count(*) FILTER (timing = 'profiled') > 0 AND count(*) FILTER (timing <> 'profiled') = 0 AS is_profiled
    FROM all_rollups
    WHERE trace = $trace
) AS r
WHERE t.name = $trace;
