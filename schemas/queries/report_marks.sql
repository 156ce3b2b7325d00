-- Where in the program rows of the statement above belong, by their `place`: of the hundred with most time the innermost Python frame that is the user's, and
-- the operator around the call that held up the host (the outermost one).
WITH moments AS (
    SELECT
        w.place,
        w.trace_id,
        coalesce(w.call_process, c.process) AS process,
        coalesce(w.call_thread, c.thread) AS thread,
        coalesce(w.call_start_ns, w.launch_start_ns) AS ts_ns
    FROM found_wall AS w
    LEFT JOIN api_calls AS c ON w.trace_id = c.trace_id AND w.launch_api_index = c.api_index
    WHERE w.place <= 100
),

lines AS (
    SELECT m.place, l.line
    FROM moments AS m
    INNER JOIN _own_lines('moments') AS l USING (trace_id, process, thread, ts_ns)
),

steps AS (
    SELECT trace_id, op_id
    FROM ops
    WHERE trace_id IN (SELECT trace_id FROM found_wall) AND (name LIKE 'ProfilerStep#%' OR name LIKE 'Optimizer.%')
),

-- The outermost operator around a call: the last one that began without another around it.
roots AS (
    SELECT o.trace_id, o.process, o.thread, o.start_ns, o.start_ns + o.duration_ns AS end_ns, o.name
    FROM ops AS o
    LEFT JOIN steps AS s ON o.trace_id = s.trace_id AND o.parent_id = s.op_id
    WHERE
        o.start_ns IS NOT NULL
        AND o.trace_id IN (SELECT trace_id FROM found_wall)
        AND o.name NOT LIKE 'ProfilerStep#%'
        AND o.name NOT LIKE 'Optimizer.%'
        AND (o.depth = 0 OR s.op_id IS NOT NULL)
),

called AS (
    SELECT place, trace_id, call_process AS process, call_thread AS thread, call_start_ns FROM found_wall WHERE call_start_ns IS NOT NULL
)

SELECT place, l.line, CASE WHEN c.call_start_ns < r.end_ns THEN r.name END AS call_op
FROM called AS c
ASOF LEFT JOIN roots AS r ON c.trace_id = r.trace_id AND c.process = r.process AND c.thread = r.thread AND c.call_start_ns >= r.start_ns
FULL JOIN lines AS l USING (place)
ORDER BY place;
