-- The selected launches of at least $least_ns in a stretch of the axis, for labels; at most $most of them, the longest.
WITH placed AS (
    SELECT
        unnest($traces::VARCHAR[]) AS trace_id,
        unnest($shifts::BIGINT[]) AS shift_ns,
        unnest($numbers::USMALLINT[]) AS number
)

SELECT
    p.number,
    a.process,
    a.device,
    a.lane,
    a.start_ns + p.shift_ns AS begins,
    a.end_ns + p.shift_ns AS ends,
    coalesce(a.short_name, a.copy_kind, a.kind) AS label,
    a.category
FROM laned AS a
INNER JOIN placed AS p USING (trace_id)
WHERE
    a.start_ns < $highest_ns
    AND a.end_ns >= $lowest_ns
    AND a.duration_ns >= $least_ns
    AND a.start_ns + p.shift_ns < $last_ns
    AND a.end_ns + p.shift_ns >= $first_ns
ORDER BY a.duration_ns DESC, p.number, a.start_ns, a.launch_index
LIMIT $most;
