-- The captured calls of launches of a graph, with the trace of the capture: when each was called, and when the capture began and ended there.
WITH owned AS (
    SELECT g.launch_index, g.capture_trace_id, g.capture_trace, g.capture_call, g.op_id, a.start_ns AS called_ns
    FROM graph_owners AS g
    INNER JOIN api_calls AS a ON g.capture_trace_id = a.trace_id AND g.capture_call = a.api_index
    WHERE g.trace_id = $trace_id AND g.launch_index BETWEEN $first AND $last AND g.op_id IS NOT NULL
),

bounds AS (
    SELECT o.capture_trace_id, min(o.called_ns) AS first_ns, max(o.called_ns) AS last_ns FROM owned AS o GROUP BY ALL
)

SELECT
    o.*,
    coalesce(
        (
            SELECT max(a.start_ns)
            FROM api_calls AS a
            WHERE a.trace_id = b.capture_trace_id AND contains(a.name, 'BeginCapture') AND a.start_ns <= b.first_ns
        ),
        b.first_ns
    ) AS from_ns,
    coalesce(
        (
            SELECT min(a.start_ns)
            FROM api_calls AS a
            WHERE a.trace_id = b.capture_trace_id AND contains(a.name, 'EndCapture') AND a.start_ns >= b.last_ns
        ),
        b.last_ns
    ) AS until_ns
FROM owned AS o
INNER JOIN bounds AS b USING (capture_trace_id)
ORDER BY o.called_ns, o.launch_index;
