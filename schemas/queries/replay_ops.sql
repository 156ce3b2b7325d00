-- The operators of a trace in order of time, each with its call and the operator around it.
SELECT
    o.op_id,
    o.parent_id,
    o.name AS op,
    c.input_dims,
    c.input_strides,
    c.input_dtypes,
    c.scalars,
    c.extra
FROM ops AS o
LEFT JOIN op_calls AS c USING (call_id)
WHERE o.trace_id = $trace_id AND o.start_ns IS NOT NULL
ORDER BY o.start_ns, o.duration_ns DESC, o.op_id;
