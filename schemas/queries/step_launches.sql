-- The launches of an iteration of a trace that are selected, in the order of the calls that launched them, as a plan needs them.
SELECT
    l.launch_index,
    l.op_id,
    l.signature_id,
    l.stream,
    l.start_ns,
    l.end_ns,
    l.duration_ns,
    coalesce(l.launch_start_ns, l.start_ns) AS called_ns,
    l.launch_status,
    l.shared_bytes,
    l.phase,
    s.kind,
    s.category,
    s.grid_x,
    s.grid_y,
    s.grid_z,
    s.block_x,
    s.block_y,
    s.block_z,
    s.bytes,
    s.copy_kind,
    n.name
FROM launches AS l
INNER JOIN signatures AS s USING (signature_id)
INNER JOIN kernel_names AS n USING (name_id)
WHERE
    l.trace_id = $trace_id
    AND l.device IS NOT DISTINCT FROM $device
    AND l.launch_index BETWEEN $first AND $last
    AND ($whole OR l.launch_index IN (SELECT c.launch_index FROM selection AS c WHERE c.trace_id = $trace_id))
    AND ($phase IS NULL OR l.phase = $phase)
    AND l.duration_ns IS NOT NULL
ORDER BY called_ns, l.launch_index;
