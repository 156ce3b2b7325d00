-- What labels read of `tui_timeline_laned`, with fewer joins: for where nothing has to be filtered.
SELECT
    l.trace_id,
    l.launch_index,
    l.process,
    l.device,
    coalesce(2 * l.stream, 2 * l.queue + 1) AS lane,
    l.kind,
    n.short_name,
    s.category,
    s.copy_kind,
    l.start_ns,
    l.end_ns,
    l.duration_ns
FROM launches AS l
LEFT JOIN signatures AS s ON l.signature_id = s.signature_id
LEFT JOIN kernel_names AS n ON s.name_id = n.name_id
WHERE l.timing = 'timeline' AND l.start_ns IS NOT NULL;
