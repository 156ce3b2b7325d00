-- What the timeline shows about the launch $launch_index of the trace $trace_id. It draws the launches of other prints, too.
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
    inferred_by,
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
    signature_id,
    module,
    python_line,
    range_path,
    op_id,
    api_index,
    api_call,
    launch_start_ns,
    (
        SELECT struct_pack(process := c.process, thread := c.thread)
        FROM api_calls AS c
        WHERE c.trace_id = $trace_id AND c.api_index = l.api_index
        LIMIT 1
    ) AS caller
FROM all_launches AS l
WHERE trace_id = $trace_id AND launch_index = $launch_index;
