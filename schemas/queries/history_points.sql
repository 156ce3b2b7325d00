-- The points of the lines of a series that show most: those that changed, then the longest kernels.
WITH ordered AS (
    SELECT trace_id, commit, happened_at, row_number() OVER (ORDER BY happened_at, recorded_at, trace_id) AS place
    FROM history_runs
    WHERE series_id = $series_id
),

newest AS (FROM ordered ORDER BY place DESC LIMIT $runs),

changed AS (SELECT DISTINCT subject, name FROM history_changes WHERE series_id = $series_id),

lines AS (
    SELECT h.subject, h.name, bool_or(c.name IS NOT NULL) AS is_changed, avg(h.total_ns) AS weight
    FROM history_rollups AS h
    INNER JOIN newest USING (trace_id)
    LEFT JOIN changed AS c ON h.subject = c.subject AND h.name = c.name
    GROUP BY h.subject, h.name
    ORDER BY is_changed DESC, h.subject = 'total' DESC, h.subject = 'kernel' DESC, weight DESC, h.name
    LIMIT $lines
)

SELECT n.place, n.trace_id, n.commit, n.happened_at, h.subject, h.name, h.value
FROM newest AS n
INNER JOIN history_rollups AS h USING (trace_id)
INNER JOIN lines AS l ON h.subject = l.subject AND h.name = l.name
ORDER BY l.is_changed DESC, h.subject = 'total' DESC, l.weight DESC, h.subject, h.name, n.place;
