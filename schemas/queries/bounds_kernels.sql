-- The selected profiled launches with the verdict of the rule $rule, longest first.
WITH chosen AS (
    SELECT coalesce(p.primary_trace_id, s.trace_id) AS trace_id, coalesce(p.primary_launch_index, s.launch_index) AS launch_index
    FROM selection AS s
    LEFT JOIN launch_prints AS p ON s.trace_id = p.trace_id AND s.launch_index = p.launch_index
    WHERE s.timing = 'profiled'
    UNION
    -- Counters of the selected kernels that were read of their calls, run again.
    SELECT l.trace_id, l.launch_index
    FROM launches AS l
    INNER JOIN traces AS t ON l.trace_id = t.trace_id AND t.kind = 'replay'
    WHERE l.signature_id IN (SELECT signature_id FROM selection)
)

SELECT
    b.short_name AS kernel,
    b.verdict,
    b.detail,
    b.duration_ns,
    b.compute_pct,
    b.memory_pct,
    b.dram_pct,
    b.operation,
    b.intensity,
    b.ridge,
    b.trace,
    b.launch_index,
    b.signature_id
FROM bounds AS b
WHERE
    b.rule = $rule
    AND (b.trace_id, b.launch_index) IN (SELECT (trace_id, launch_index) FROM chosen)
ORDER BY b.duration_ns DESC, b.trace, b.launch_index;
