-- What `tui_timeline_laned` says about where launches are, with no joins but one: for where nothing has to be filtered.
SELECT
    t.trace,
    l.trace_id,
    l.launch_index,
    l.process,
    l.device,
    coalesce(2 * l.stream, 2 * l.queue + 1) AS lane,
    l.start_ns,
    l.end_ns,
    l.launch_start_ns,
    l.signature_id
FROM launches AS l
LEFT JOIN (SELECT trace_id, name AS trace FROM traces) AS t USING (trace_id)
WHERE l.timing = 'timeline' AND l.start_ns IS NOT NULL;
