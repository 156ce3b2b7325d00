-- The operators of a trace in order of time, each with its call (`replay_op_calls`) and the operator around it.
SELECT op_id, parent_id, name AS op, call_id
FROM ops
WHERE trace_id = $trace_id AND start_ns IS NOT NULL
ORDER BY start_ns, duration_ns DESC, op_id;
