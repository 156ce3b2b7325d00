-- The line of the user's program at each of `moments` (names a relation: trace_id, process, thread, ts_ns): the innermost Python frame that is no library's.
CREATE OR REPLACE MACRO _own_lines(moments) AS TABLE
SELECT m.trace_id, m.process, m.thread, m.ts_ns, arg_max(r.name, (r.start_ns, r.depth)) AS line
FROM (SELECT DISTINCT trace_id, process, thread, ts_ns FROM query_table(moments)) AS m
INNER JOIN ranges AS r
    ON
        m.trace_id = r.trace_id
        AND m.process = r.process
        AND m.thread = r.thread
        AND r.start_ns <= m.ts_ns
        AND r.start_ns + r.duration_ns >= m.ts_ns
WHERE r.kind = 'python_function' AND NOT _is_library_frame(r.name)
GROUP BY ALL;
