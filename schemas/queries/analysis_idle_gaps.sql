-- Single gaps, longest first. The line of the launch after is that of the user's program, of the hundred longest: the innermost frame may be PyTorch's own.
WITH gaps AS MATERIALIZED (FROM idle_gaps('selection')),

longest AS (FROM gaps WHERE next_line IS NOT NULL ORDER BY gap_ns DESC, trace, device, gap_start_ns LIMIT 100),

moments AS (
    SELECT g.trace, g.device, g.gap_start_ns, c.trace_id, c.process, c.thread, c.start_ns AS ts_ns
    FROM longest AS g
    INNER JOIN selection AS l ON g.trace = l.trace AND g.device IS NOT DISTINCT FROM l.device AND g.gap_end_ns = l.start_ns
    INNER JOIN api_calls AS c ON l.trace_id = c.trace_id AND l.api_index = c.api_index
    WHERE g.launch_start_ns = c.start_ns
),

lines AS (
    SELECT m.trace, m.device, m.gap_start_ns, any_value(l.line) AS line
    FROM moments AS m
    INNER JOIN _own_lines('moments') AS l USING (trace_id, process, thread, ts_ns)
    GROUP BY ALL
)

SELECT g.* REPLACE (coalesce(l.line, g.next_line) AS next_line)
FROM gaps AS g
LEFT JOIN lines AS l ON g.trace = l.trace AND g.device IS NOT DISTINCT FROM l.device AND g.gap_start_ns = l.gap_start_ns
ORDER BY g.gap_ns DESC, g.trace, g.device, g.gap_start_ns;
