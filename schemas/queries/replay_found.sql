-- What earlier replays found for launches of a trace, with the calls.
SELECT f.launch_index, f.call_id, f.confidence, f.run_id, c.op, c.input_dims, c.input_strides, c.input_dtypes, c.scalars, c.extra
FROM found_calls AS f
INNER JOIN op_calls AS c USING (call_id)
WHERE f.trace_id = $trace_id AND f.found_by = 'inferred'
ORDER BY f.launch_index;
