-- The selected launches of an `nn.Module` as `tui_timeline_paired` reads them: in one lane per trace, with modules in the place of categories.
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
FROM selection
WHERE module IS NOT NULL;
