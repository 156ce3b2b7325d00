-- What `tui_timeline_named` says, with fewer joins: for where nothing has to be filtered.
SELECT
    l.trace_id,
    NULL::VARCHAR AS process,
    NULL::INTEGER AS device,
    0::BIGINT AS stream,
    NULL::BIGINT AS queue,
    coalesce(l.phase, t.default_phase) AS category,
    l.timing,
    l.start_ns,
    l.end_ns
FROM launches AS l
INNER JOIN traces AS t USING (trace_id)
WHERE coalesce(l.phase, t.default_phase) IS NOT NULL
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
FROM launches
WHERE module IS NOT NULL;
