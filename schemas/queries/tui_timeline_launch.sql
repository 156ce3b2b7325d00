-- One launch; or, where $launch_index is NULL, the first selected launch of a signature.
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
    timing = 'timeline'
    AND start_ns IS NOT NULL
    AND ($launch_index::BIGINT IS NULL OR (launch_index = $launch_index AND trace_id = $trace_id))
    AND ($launch_index::BIGINT IS NOT NULL OR signature_id = $signature_id)
ORDER BY trace, start_ns, launch_index
LIMIT 1;
