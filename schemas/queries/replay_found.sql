-- The calls that earlier replays found for launches of a trace, with their donors, if any.
SELECT
    f.launch_index,
    f.call_id,
    f.confidence,
    f.run_id,
    f.inferred_by AS "source",
    f.evidence,
    f.donor_trace_id,
    f.donor_launch_index,
    t.name AS donor_trace,
    c.op,
    c.input_dims,
    c.input_strides,
    c.input_dtypes,
    c.scalars,
    c.extra
FROM inferred_calls AS f
INNER JOIN op_calls AS c USING (call_id)
LEFT JOIN traces AS t ON f.donor_trace_id = t.trace_id
WHERE f.trace_id = $trace_id AND f.run_id IS NOT NULL AND f.call_kernels IS NOT NULL
ORDER BY f.launch_index;
