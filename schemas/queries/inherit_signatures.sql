-- The fact columns of signatures, by id, with the name as printed.
SELECT
    s.signature_id,
    s.kind,
    s.name_id,
    n.name,
    s.grid_x,
    s.grid_y,
    s.grid_z,
    s.block_x,
    s.block_y,
    s.block_z,
    s.bytes,
    s.copy_kind,
    s.total_blocks,
    s.threads_per_block
FROM signatures AS s
INNER JOIN kernel_names AS n USING (name_id)
WHERE list_contains($ids::VARCHAR[], s.signature_id);
