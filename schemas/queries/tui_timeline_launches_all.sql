-- What a timeline reads of the view kernels, with fewer joins: for where nothing has to be filtered. Categories are numbers (see
-- `tui_timeline_categories`), which are grouped faster than text.
SELECT
    l.trace_id,
    l.process,
    l.device,
    l.stream,
    l.queue,
    n.category,
    l.timing,
    l.start_ns,
    l.end_ns
FROM launches AS l
LEFT JOIN (
    SELECT signature_id, CASE WHEN category IS NOT NULL THEN dense_rank() OVER (ORDER BY category) END::USMALLINT AS category
    FROM signatures
) AS n USING (signature_id);
