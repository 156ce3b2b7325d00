-- The operators of a trace that begin in a window of time, in order, with the tensors that an Execution Trace gives them.
SELECT
    o.op_id,
    o.parent_id,
    o.name,
    o.start_ns,
    o.start_ns + coalesce(o.duration_ns, 0) AS end_ns,
    o.forward_op_id,
    o.call_id,
    t.inputs,
    t.outputs
FROM ops AS o
LEFT JOIN op_tensors AS t ON o.trace_id = t.trace_id AND o.op_id = t.op_id
WHERE o.trace_id = $trace_id AND o.start_ns BETWEEN $from_ns AND $until_ns
ORDER BY o.start_ns, o.duration_ns DESC, o.op_id;
