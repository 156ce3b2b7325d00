-- What the timeline looks launches up by, and labels them with: those of the selection that have times, each with its lane.
SELECT
    trace,
    trace_id,
    launch_index,
    process,
    device,
    coalesce(2 * stream, 2 * queue + 1) AS lane,
    kind,
    short_name,
    category,
    copy_kind,
    start_ns,
    end_ns,
    duration_ns,
    launch_start_ns,
    signature_id
FROM selection
WHERE timing = 'timeline' AND start_ns IS NOT NULL;
