-- Launches that the host called inside ranges of a name, as iterations: what a program itself marks as its step.
SELECT
    t.trace_id,
    t.name AS trace,
    l.device,
    NULL::INTEGER AS iteration,
    r.name AS label,
    NULL::BOOLEAN AS steady_state,
    count(*) AS launches,
    min(l.launch_index) AS first_launch_index,
    max(l.launch_index) AS last_launch_index
FROM ranges AS r
INNER JOIN traces AS t USING (trace_id)
INNER JOIN launches AS l
    ON r.trace_id = l.trace_id AND coalesce(l.launch_start_ns, l.start_ns) BETWEEN r.start_ns AND r.start_ns + r.duration_ns
WHERE r.name = $label AND r.device IS NULL AND l.launch_index IN (SELECT s.launch_index FROM selection AS s WHERE s.trace_id = l.trace_id)
GROUP BY t.trace_id, t.name, l.device, r.range_id, r.name, r.start_ns
ORDER BY t.name, l.device, r.start_ns;
