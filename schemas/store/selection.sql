-- name: named
-- The traces $names as they were named: what work they hold, and how it was timed.
SELECT
    t.name,
    t.run,
    t.rank,
    t.default_phase,
    coalesce(t.is_primary, true) AS is_primary,
    CASE WHEN bool_or(r.timing = 'timeline') THEN 'timeline' ELSE 'profiled' END AS timing
FROM traces AS t
LEFT JOIN rollups AS r ON t.trace_id = r.trace_id AND r.origin = 'launches'
WHERE list_contains($names::VARCHAR[], t.name)
GROUP BY t.name, t.run, t.rank, t.default_phase, t.is_primary
ORDER BY list_position($names::VARCHAR[], t.name);
