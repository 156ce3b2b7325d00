-- The wanted collectives whose operation, type, sizes and ranks are recorded (named as PyTorch's profiler names them), those with most time
-- first.
SELECT
    k.signature_id,
    k.collective AS "Collective name",
    k.collective_dtype AS "dtype",
    k.collective_in_elements AS "In msg nelems",
    k.collective_out_elements AS "Out msg nelems",
    k.group_size AS "Group size",
    any_value(k.name) AS name,
    'kernel' AS kind,
    NULL::BIGINT AS bytes,
    NULL::VARCHAR AS copy_kind,
    any_value(k.grid_x) AS grid_x,
    any_value(k.grid_y) AS grid_y,
    any_value(k.grid_z) AS grid_z,
    any_value(k.block_x) AS block_x,
    any_value(k.block_y) AS block_y,
    any_value(k.block_z) AS block_z,
    mode(k.shared_bytes ORDER BY k.shared_bytes) AS shared_bytes,
    count(*) AS launches,
    median(k.duration_ns)::BIGINT AS median_ns,
    try_cast(sum(k.duration_ns) AS BIGINT) AS total_ns
FROM selection AS k
WHERE
    k.timing = 'timeline'
    AND k.kind = 'kernel'
    AND k.category = 'COMMUNICATION'
    AND k.collective IS NOT NULL
    AND k.group_size IS NOT NULL
    AND list_contains($signatures::VARCHAR[], k.signature_id)
GROUP BY ALL
ORDER BY
    total_ns DESC,
    k.signature_id,
    k.collective,
    k.collective_dtype,
    k.collective_in_elements,
    k.collective_out_elements,
    k.group_size;
