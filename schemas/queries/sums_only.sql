-- Of the traces $names (all where NULL), those with GPU time of which no single launch is known: no condition selects any of it. Sums
-- of work that another trace of their run holds are left out where nobody named them.
SELECT DISTINCT t.name AS trace
FROM traces AS t
INNER JOIN rollups AS r USING (trace_id)
WHERE
    r.timing = 'timeline'
    AND r.origin <> 'launches'
    AND coalesce(t.launches, 0) = 0
    AND CASE WHEN $names IS NULL THEN r.is_repeat IS NOT TRUE ELSE list_contains($names, t.name) END
ORDER BY t.name;
