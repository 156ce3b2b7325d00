-- The launches of `selection` in a stretch of the axis, the longest first, as they are: $most of them, of which one read makes all that the timeline draws.
WITH placed AS (
    SELECT
        unnest($traces::VARCHAR[]) AS trace_id,
        unnest($shifts::BIGINT[]) AS shift_ns,
        unnest($numbers::USMALLINT[]) AS number
)

SELECT
    p.number,
    s.trace_id,
    s.launch_index,
    s.process,
    s.device,
    coalesce(2 * s.stream, 2 * s.queue + 1) AS lane,
    coalesce(s.short_name, s.copy_kind, s.kind) AS label,
    s.category,
    s.phase,
    s.module,
    s.start_ns,
    s.start_ns + p.shift_ns AS begins,
    s.end_ns + p.shift_ns AS ends,
    s.duration_ns
FROM selection AS s
INNER JOIN placed AS p USING (trace_id)
WHERE
    s.timing = 'timeline'
    AND s.start_ns < $highest_ns
    AND s.end_ns >= $lowest_ns
    AND s.start_ns + p.shift_ns < $last_ns
    AND s.end_ns + p.shift_ns >= $first_ns
ORDER BY s.duration_ns DESC, p.number, s.start_ns, s.launch_index
LIMIT $most;
