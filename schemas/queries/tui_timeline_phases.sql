-- The selected launches that have a phase as `tui_timeline_paired` reads them: in one lane per trace, with phases in the place of categories.
SELECT
    trace_id,
    NULL::VARCHAR AS process,
    NULL::INTEGER AS device,
    NULL::BIGINT AS stream,
    NULL::BIGINT AS queue,
    phase AS category,
    timing,
    start_ns,
    end_ns
FROM selection
WHERE phase IS NOT NULL;
