-- The operators of a trace in order of time: the place of each one's call among those of `replay_op_calls`, and that of the operator around
-- it among these, both from 0.
WITH placed AS (
    SELECT
        op_id,
        parent_id,
        dense_rank() OVER (ORDER BY name, call_id) - 1 AS code,
        row_number() OVER (ORDER BY start_ns, duration_ns DESC, op_id) - 1 AS place
    FROM ops
    WHERE trace_id = $trace_id AND start_ns IS NOT NULL
)

SELECT inner_op.op_id, inner_op.code, around.place AS parent
FROM placed AS inner_op
LEFT JOIN placed AS around ON inner_op.parent_id = around.op_id
ORDER BY inner_op.place;
