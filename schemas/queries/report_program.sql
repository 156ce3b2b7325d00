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
    coalesce(t.has_stacks, false) AS has_stacks,
    t.launches,
    (SELECT count(*) FROM api_calls AS c WHERE c.trace_id = t.trace_id AND t.launches < 20 AND c.name ILIKE '%launchkernel%') AS launch_calls
FROM traces AS t
WHERE t.name = $trace;
