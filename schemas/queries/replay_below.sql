-- What the calls below the operators $op_ids of the traces $trace_ids (two lists, entry by entry) launched, in order: these come out again when
-- one of the operators is called, and belong to other calls.
WITH RECURSIVE asked AS (SELECT unnest($trace_ids::VARCHAR[]) AS trace_id, unnest($op_ids::BIGINT[]) AS op_id),

below AS (
    SELECT a.trace_id, a.op_id AS top, o.op_id
    FROM asked AS a
    INNER JOIN ops AS o ON a.trace_id = o.trace_id AND a.op_id = o.parent_id
    UNION ALL
    SELECT b.trace_id, b.top, o.op_id
    FROM below AS b
    INNER JOIN ops AS o ON b.trace_id = o.trace_id AND b.op_id = o.parent_id
)

SELECT
    b.trace_id,
    b.top AS op_id,
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
FROM below AS b
INNER JOIN launches AS l ON b.trace_id = l.trace_id AND b.op_id = l.op_id
INNER JOIN signatures AS s USING (signature_id)
INNER JOIN kernel_names AS n USING (name_id)
WHERE l.launch_status = 'linked'
ORDER BY b.trace_id, b.top, l.launch_index;
