-- The operator calls recorded in a trace and in the others of its run, with their launches: dims that the model has.
SELECT c.op, c.input_dims, c.input_strides, c.input_dtypes, c.scalars, c.extra, sum(r.n)::BIGINT AS n
FROM rollups AS r
INNER JOIN signatures AS s USING (signature_id)
INNER JOIN op_calls AS c USING (call_id)
WHERE
    s.level = 'call'
    AND r.origin = 'launches'
    AND r.trace_id IN (
        SELECT b.trace_id FROM traces AS a INNER JOIN traces AS b ON a.trace_id = b.trace_id OR a.run = b.run WHERE a.trace_id = $trace_id
    )
GROUP BY ALL
ORDER BY n DESC, c.op, c.input_dims, c.input_strides, c.input_dtypes, c.scalars, c.extra
LIMIT 2000;
