-- The selected launches that have a phase, and those that have a module, as `tui_timeline_paired` reads them: per trace in a lane each (0 and 2), with the
-- names in the place of categories.
SELECT
    trace_id,
    NULL::VARCHAR AS process,
    NULL::INTEGER AS device,
    0::BIGINT AS stream,
    NULL::BIGINT AS queue,
    phase AS category,
    timing,
    start_ns,
    end_ns
FROM selection
WHERE phase IS NOT NULL
UNION ALL
SELECT
    trace_id,
    NULL,
    NULL,
    1,
    NULL,
    module,
    timing,
    start_ns,
    end_ns
FROM selection
WHERE module IS NOT NULL;
