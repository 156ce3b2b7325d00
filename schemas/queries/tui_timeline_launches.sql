-- The selected launches as `tui_timeline_paired` reads them.
SELECT
    trace_id,
    process,
    device,
    stream,
    queue,
    category,
    timing,
    start_ns,
    end_ns
FROM selection;
