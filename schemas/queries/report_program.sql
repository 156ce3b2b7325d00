-- What advice depends on: whose GPU it is, whether PyTorch ran, by the profiler or by operators and kernels of it, and what else there is to say something of. What
-- is asked of each rule takes longer to plan than all of this: of a kind of time that is not there, nothing is.
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
    r.has_kernels AND p.has_timeline AS has_timeline,
    r.has_kernels AND p.has_computation AS has_computation,
    r.has_kernels AND p.has_odd_sides AS has_odd_sides,
    r.has_kernels AND p.has_communication AS has_communication,
    r.has_kernels AND r.has_conversions AS has_conversions,
    p.has_copies,
    p.has_device_copies,
    r.has_kernels AND p.short_pauses >= 10 AS has_many_pauses,
    r.has_kernels AND p.short_pauses BETWEEN 1 AND 9 AS has_few_pauses,
    r.has_kernels AND p.has_long_pauses AS has_long_pauses,
    r.has_kernels AND p.has_late_graphs AS has_late_graphs,
    r.has_kernels AND EXISTS (FROM metrics WHERE metric LIKE 'rule:%') AS has_ncu_rules,
    r.has_kernels AND EXISTS (FROM improvements AS i WHERE i.trace_id = t.trace_id) AS has_improvements,
    t.source LIKE 'pytorch%' AND EXISTS (FROM memory_events AS m WHERE m.trace_id = t.trace_id AND m.total_reserved_bytes IS NOT NULL) AS has_memory,
    t.launches,
    (SELECT count(*) FROM launches AS l WHERE l.trace_id = t.trace_id AND l.launch_status = 'before_window') AS launched_before
FROM traces AS t
CROSS JOIN (
    SELECT
        count(*) FILTER (library = 'PyTorch ATen' OR starts_with(op, 'aten::')) > 0 AS of_torch,
        count(*) FILTER (kind NOT IN ('memcpy', 'memset')) > 0 AS has_kernels,
        count(*) FILTER (category = 'SOFTMAX') > 0 AS has_softmax,
        count(*) FILTER (category = 'GEMV') > 0 AS has_gemv,
        count(*) FILTER (timing = 'profiled') > 0 AND count(*) FILTER (timing <> 'profiled') = 0 AS is_profiled,
        coalesce(
            sum(total_ns) FILTER (
                is_primary AND timing = 'timeline' AND (op IN ('aten::copy_', 'aten::_to_copy', 'aten::to') OR (op IS NULL AND contains(name, '_copy_kernel')))
            ) >= 0.03 * sum(total_ns) FILTER (is_primary AND timing = 'timeline'),
            false
        ) AS has_conversions
    FROM all_rollups
    WHERE trace = $trace
) AS r
CROSS JOIN (
    SELECT
        count(*) > 0 AS has_timeline,
        count(*) FILTER (part = 'computation') > 0 AS has_computation,
        count(*) FILTER (odd_side IS NOT NULL) > 0 AS has_odd_sides,
        count(*) FILTER (part = 'communication') > 0 AS has_communication,
        count(*) FILTER (cause = 'blocking copy' OR (part = 'copy' AND copy_kind IN ('HtoD', 'DtoH'))) > 0 AS has_copies,
        count(*) FILTER (part = 'copy' AND coalesce(copy_kind NOT IN ('HtoD', 'DtoH'), true)) > 0 AS has_device_copies,
        coalesce(sum(n - long_n) FILTER (cause = 'launching' AND is_graph IS NOT TRUE), 0) AS short_pauses,
        count(*) FILTER (cause = 'launching' AND is_graph IS NOT TRUE AND long_n > 0) > 0 AS has_long_pauses,
        count(*) FILTER (cause = 'launching' AND is_graph) > 0 AS has_late_graphs
    FROM found_places
) AS p
WHERE t.name = $trace;
