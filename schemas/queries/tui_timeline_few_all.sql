-- What `tui_timeline_few` says, with fewer joins: for where nothing has to be filtered.
WITH placed AS (
    SELECT
        unnest($traces::VARCHAR[]) AS trace_id,
        unnest($shifts::BIGINT[]) AS shift_ns,
        unnest($numbers::USMALLINT[]) AS number
)

SELECT
    p.number,
    l.trace_id,
    l.launch_index,
    l.process,
    l.device,
    coalesce(2 * l.stream, 2 * l.queue + 1) AS lane,
    coalesce(n.short_name, s.copy_kind, l.kind) AS label,
    s.category,
    coalesce(l.phase, t.default_phase) AS phase,
    l.module,
    l.start_ns,
    l.start_ns + p.shift_ns AS begins,
    l.end_ns + p.shift_ns AS ends,
    l.duration_ns
FROM launches AS l
INNER JOIN placed AS p USING (trace_id)
INNER JOIN traces AS t USING (trace_id)
LEFT JOIN signatures AS s ON l.signature_id = s.signature_id
LEFT JOIN kernel_names AS n ON s.name_id = n.name_id
WHERE
    l.timing = 'timeline'
    AND l.start_ns < $highest_ns
    AND l.end_ns >= $lowest_ns
    AND l.start_ns + p.shift_ns < $last_ns
    AND l.end_ns + p.shift_ns >= $first_ns
ORDER BY l.duration_ns DESC, p.number, l.start_ns, l.launch_index
LIMIT $most;
