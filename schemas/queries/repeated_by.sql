-- Of the traces $names, those whose work is primary in another trace of their run, and that trace.
WITH held AS (
    SELECT t.trace_id, t.name, t.repeats, t.run, t.rank, t.default_phase, t.launches, coalesce(t.is_primary, true) AS is_primary
    FROM traces AS t
    WHERE t.trace_id IN (SELECT trace_id FROM rollups)
)

SELECT a.name AS trace, a.run, arg_min(b.name, (coalesce(list_position(a.repeats, b.trace_id), 1e9), -coalesce(b.launches, 0), b.name)) AS other
FROM held AS a
INNER JOIN held AS b
    ON
        a.run = b.run
        AND b.is_primary
        AND coalesce(a.rank = b.rank, true)
        AND coalesce(a.default_phase = b.default_phase, true)
WHERE NOT a.is_primary AND list_contains($names, a.name)
GROUP BY a.name, a.run
ORDER BY a.name;
