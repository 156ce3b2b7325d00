-- What `tui_timeline_phases` says, with fewer joins: for where nothing has to be filtered.
SELECT
    l.trace_id,
    NULL::VARCHAR AS process,
    NULL::INTEGER AS device,
    NULL::BIGINT AS stream,
    NULL::BIGINT AS queue,
    coalesce(l.phase, t.default_phase) AS category,
    l.timing,
    l.start_ns,
    l.end_ns
FROM launches AS l
INNER JOIN traces AS t USING (trace_id)
WHERE coalesce(l.phase, t.default_phase) IS NOT NULL;
