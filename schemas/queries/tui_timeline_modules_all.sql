-- What `tui_timeline_modules` says, with fewer joins: for where nothing has to be filtered.
SELECT
    trace_id,
    NULL::VARCHAR AS process,
    NULL::INTEGER AS device,
    NULL::BIGINT AS stream,
    NULL::BIGINT AS queue,
    module AS category,
    timing,
    start_ns,
    end_ns
FROM launches
WHERE module IS NOT NULL;
