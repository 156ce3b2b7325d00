-- What had to happen before what, and what it takes: edges of a graph without cycles. Its nodes are the starts (3 × run) and ends (3 × run + 1) of launches and the
-- points of the host (3 × point + 2), of each job in order of time. `weight_ns` is at most the time between the nodes, and all of it for at least one edge to each
-- node but those that nothing is known before. docs/why.md has the rules.
WITH runs AS (FROM critical_runs),

points AS (FROM critical_points),

ends AS (SELECT trace_id, end_ns, max(run) AS run FROM runs WHERE end_ns > start_ns GROUP BY ALL),

stream_ends AS (SELECT trace_id, stream, end_ns, max(run) AS run FROM runs WHERE end_ns > start_ns GROUP BY ALL),

-- Which of them a launch did wait for: the last.
bound AS (
    SELECT *, greatest(called_ns, free_ns, other_ns) AS ready_ns
    FROM critical_before
),

starting AS (
    SELECT
        run, 3 * stream_run + 1 AS from_node, CASE WHEN free_ns = ready_ns THEN start_ns ELSE free_ns END - stream_ns AS weight_ns, 'between launches' AS cause,
        free_ns = ready_ns AND start_ns - ready_ns > 100000 AS is_unknown
    FROM bound
    WHERE stream_run IS NOT NULL
    UNION ALL
    SELECT run, 3 * other_run + 1, CASE WHEN other_ns = ready_ns THEN start_ns ELSE other_ns END - other_ns, 'dependency', other_ns = ready_ns AND start_ns - ready_ns > 100000
    FROM bound
    WHERE other_run IS NOT NULL
    UNION ALL
    SELECT run, 3 * point + 2, CASE WHEN called_ns = ready_ns THEN start_ns ELSE called_ns END - call_ns, 'launch latency', called_ns = ready_ns AND start_ns - ready_ns > 100000
    FROM bound
    WHERE point IS NOT NULL
),

-- Until when a call waited: for what it copies, or the last launch on its stream, or on any.
waiting AS (
    SELECT p.*, coalesce(c.run, s.run, CASE WHEN p.stream IS NULL THEN a.run END) AS target
    FROM (SELECT *, coalesce(stream, -1) AS awaited FROM points WHERE is_waiting AND previous IS NOT NULL) AS p
    LEFT JOIN runs AS c ON p.copied = c.run AND c.end_ns <= p.ts_ns
    ASOF LEFT JOIN stream_ends AS s ON p.trace_id = s.trace_id AND p.awaited = s.stream AND p.ts_ns >= s.end_ns
    ASOF LEFT JOIN ends AS a ON p.trace_id = a.trace_id AND p.ts_ns >= a.end_ns
),

returns AS (
    SELECT w.point, w.run, w.cause, w.call, w.target, w.ts_ns - greatest(w.previous_ns, r.end_ns) AS weight_ns
    FROM waiting AS w
    INNER JOIN runs AS r ON w.target = r.run
    WHERE coalesce(r.launch_start_ns, r.start_ns) <= w.previous_ns
),

parted AS (
    SELECT
        r.run, r.start_ns, r.end_ns, r.transfer_ns, l.start_ns AS late_ns, l.run AS late_run,
        coalesce(l.run <> r.run AND l.start_ns BETWEEN r.start_ns AND r.end_ns, false) AS waits,
        CASE WHEN r.kind = 'memcpy' THEN 'copy' WHEN r.category = 'COMMUNICATION' THEN 'communication' ELSE 'computation' END AS part,
        CASE
            WHEN r.kind = 'memcpy' THEN coalesce(r.copy_kind, 'copy')
            WHEN r.category = 'COMMUNICATION' THEN CASE WHEN l.run IS NULL THEN 'unsplit' ELSE 'transfer' END
            WHEN r.kind = 'kernel' THEN coalesce(r.category, 'OTHER')
            ELSE upper(r.kind)
        END AS cause
    FROM runs AS r
    LEFT JOIN runs AS l ON r.late_run = l.run
),

edges AS (
    SELECT 3 * run AS to_node, from_node, weight_ns, CASE WHEN is_unknown THEN 'unattributed' ELSE 'queue' END AS part,
        CASE WHEN is_unknown THEN 'unattributed' ELSE cause END AS cause, run, NULL AS call, cause = 'dependency' AS is_wait
    FROM starting
    UNION ALL
    SELECT
        3 * run + 1, 3 * run, CASE WHEN waits THEN transfer_ns ELSE end_ns - start_ns END,
        part, cause, run, NULL, false
    FROM parted
    UNION ALL
    SELECT 3 * run + 1, 3 * late_run, end_ns - late_ns, part, cause, run, NULL, false
    FROM parted
    WHERE waits
    UNION ALL
    SELECT 3 * p.point + 2, 3 * p.previous + 2, coalesce(r.weight_ns, p.ts_ns - p.previous_ns), 'host', p.cause, p.run, p.call, false
    FROM points AS p
    LEFT JOIN returns AS r USING (point)
    WHERE p.previous IS NOT NULL
    UNION ALL
    SELECT 3 * point + 2, 3 * target + 1, weight_ns, 'host', cause, run, call, true FROM returns
)

SELECT
    t.number AS target, f.number AS source, e.weight_ns, e.part, e.cause, e.call, e.is_wait, r.trace, r.launch_index, r.short_name AS kernel, r.op, r.module,
    r.python_line
FROM edges AS e
INNER JOIN critical_nodes AS t ON e.to_node = t.node
INNER JOIN critical_nodes AS f ON e.from_node = f.node
LEFT JOIN runs AS r USING (run)
WHERE f.number < t.number
ORDER BY target, e.part, e.cause, source;
