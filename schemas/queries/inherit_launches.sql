-- The launches of the trace $trace_id with what decides whose call they may share. `shape` is equal for equal grids and blocks; `variant` is
-- the recorded call with the place of the launch in it.
SELECT
    l.trace_id,
    l.launch_index,
    l.kind,
    l.process,
    l.device,
    l.stream,
    l.start_ns,
    l.duration_ns,
    l.timing,
    d.arch,
    s.name_id,
    hash(s.grid_x, s.grid_y, s.grid_z, s.block_x, s.block_y, s.block_z) AS shape,
    coalesce(s.grid_x IS NOT NULL OR s.total_blocks IS NOT NULL, false) AS has_shape,
    l.shared_bytes,
    s.bytes,
    s.copy_kind,
    s.launch_key,
    n.match_name,
    l.signature_id,
    s.op,
    s.level <> 'call' AS wanted,
    CASE WHEN s.level = 'call' THEN s.call_id END AS call_id,
    CASE WHEN s.level = 'call' THEN l.op_id END AS op_id,
    CASE WHEN s.level = 'call' THEN row_number() OVER same_op - 1 END AS ordinal,
    CASE WHEN s.level = 'call' THEN count(*) OVER (PARTITION BY l.trace_id, l.op_id) END AS kernels,
    CASE WHEN s.level = 'call' THEN hash(s.call_id, row_number() OVER same_op, count(*) OVER (PARTITION BY l.trace_id, l.op_id)) END AS variant
FROM launches AS l
INNER JOIN signatures AS s USING (signature_id)
INNER JOIN kernel_names AS n USING (name_id)
LEFT JOIN (
    SELECT
        trace_id,
        device,
        CASE WHEN min(arch) = max(arch) THEN min(arch) END AS arch
    FROM devices
    GROUP BY trace_id, device
) AS d ON l.trace_id = d.trace_id AND l.device = d.device
WHERE l.trace_id = $trace_id AND l.launch_index < $most
WINDOW same_op AS (PARTITION BY l.trace_id, l.op_id ORDER BY l.launch_index)
ORDER BY l.launch_index;
