-- The time of each category of launches of a trace, most first: the order in which a page gives them colours.
SELECT s.category, sum(l.end_ns - l.start_ns)::BIGINT AS total_ns
FROM launches AS l
INNER JOIN traces AS t USING (trace_id)
INNER JOIN signatures AS s USING (signature_id)
WHERE
    t.name = $trace
    AND l.timing = 'timeline'
    AND coalesce(t.primary_timing, 'timeline') = 'timeline'
    AND l.end_ns >= l.start_ns
    AND s.category IS NOT NULL
GROUP BY s.category
ORDER BY total_ns DESC, s.category;
