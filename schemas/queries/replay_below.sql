-- What operators launched that are inside of others, in order: entry by entry of three lists, $op_ids of the traces $trace_ids inside of $outer_ids.
-- These launches come out again when the outer operator is called, and belong to other calls.
WITH asked AS (
    SELECT
        unnest($trace_ids::VARCHAR[]) AS trace_id,
        unnest($outer_ids::BIGINT[]) AS outer_id,
        unnest($op_ids::BIGINT[]) AS op_id
)

SELECT
    a.trace_id,
    a.outer_id,
    l.signature_id,
    l.shared_bytes,
    s.kind,
    n.name,
    s.grid_x,
    s.grid_y,
    s.grid_z,
    s.block_x,
    s.block_y,
    s.block_z,
    s.bytes,
    s.copy_kind
FROM asked AS a
INNER JOIN launches AS l ON a.trace_id = l.trace_id AND a.op_id = l.op_id
INNER JOIN signatures AS s USING (signature_id)
INNER JOIN kernel_names AS n USING (name_id)
WHERE l.launch_status = 'linked'
ORDER BY a.trace_id, a.outer_id, l.launch_index;
