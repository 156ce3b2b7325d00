-- The first selected launch of a lane after another one, up to a time; with $signature_id, of that signature.
SELECT
    trace,
    trace_id,
    launch_index,
    process,
    device,
    coalesce(2 * stream, 2 * queue + 1) AS lane,
    kind,
    name,
    short_name,
    category,
    op,
    phase,
    start_ns,
    end_ns,
    duration_ns,
    grid_x,
    grid_y,
    grid_z,
    block_x,
    block_y,
    block_z,
    bytes,
    copy_kind,
    tflops,
    gbs,
    signature_id
FROM selection
WHERE
    trace_id = $trace_id
    AND timing = 'timeline'
    AND start_ns <= $bound_ns
    AND start_ns >= $start_ns
    AND (start_ns > $start_ns OR launch_index > $launch_index)
    AND process IS NOT DISTINCT FROM coalesce($process::VARCHAR, process)
    AND device IS NOT DISTINCT FROM $device::INTEGER
    AND coalesce(2 * stream, 2 * queue + 1) IS NOT DISTINCT FROM $lane::BIGINT
    AND ($signature_id::VARCHAR IS NULL OR signature_id = $signature_id)
ORDER BY start_ns, launch_index
LIMIT 1;
