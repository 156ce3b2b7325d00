-- The distinct calls of the operators of a trace.
SELECT
    o.name AS op,
    o.call_id,
    c.input_dims,
    c.input_strides,
    c.input_dtypes,
    c.scalars,
    c.extra
FROM (SELECT DISTINCT name, call_id FROM ops WHERE trace_id = $trace_id AND start_ns IS NOT NULL) AS o
LEFT JOIN op_calls AS c USING (call_id)
ORDER BY o.name, o.call_id;
