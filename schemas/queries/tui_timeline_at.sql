-- The selected launch of a lane that ran longest between two times of its trace; of several, the first.
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
    AND start_ns < $last_ns
    AND end_ns >= $first_ns
    AND process IS NOT DISTINCT FROM coalesce($process::VARCHAR, process)
    AND device IS NOT DISTINCT FROM $device::INTEGER
    AND coalesce(2 * stream, 2 * queue + 1) IS NOT DISTINCT FROM $lane::BIGINT
ORDER BY least(end_ns, $last_ns) - greatest(start_ns, $first_ns) DESC, start_ns, launch_index
LIMIT 1;
