-- What held up the host in the gaps in which anything did: pieces that cover each such gap from its start to `host_ns` at least. `number` is the wait of
-- `_host_waits`, NULL where none was open. `gaps` names gaps of `_wall_sweep` with the trace, process and thread
-- of the launch call that ends them (`host_process`, `thread`) and the thread of the one before (`other_thread`), `queue_ns`, until when the launch
-- then took to start, and `first_ns`, when the device began; `waits` names rows of `_host_waits`.
--
-- Where nothing was open, after calls that waited for the GPU, the time still counts for these calls, for each as far as it lasted (`_wait_debts`): had they
-- taken no time, the host would have come so much earlier, and the launch would have started before the gap.
CREATE OR REPLACE MACRO _wall_held(gaps, waits) AS TABLE
-- A gap is the matter of the thread that ends it and of the one that launched before it.
WITH _lanes AS (
    SELECT
        *,
        row_number() OVER (ORDER BY place, host_process, thread, other_thread) AS lane,
        dense_rank() OVER (ORDER BY place, host_process) AS owner
    FROM (SELECT DISTINCT place, first_ns, trace_id, host_process, thread, other_thread FROM query_table(gaps))
),

_late AS (
    SELECT g.place, g.launch_index, g.start_ns, g.host_ns, g.queue_ns, l.lane, l.owner
    FROM query_table(gaps) AS g
    INNER JOIN _lanes AS l
        ON
            g.place = l.place
            AND g.host_process IS NOT DISTINCT FROM l.host_process
            AND g.thread IS NOT DISTINCT FROM l.thread
            AND g.other_thread IS NOT DISTINCT FROM l.other_thread
),

_open AS (
    SELECT
        l.lane, l.owner, l.first_ns, w.start_ns, w.end_ns, w.precedence, w.number, w.is_blocking,
        max(w.end_ns) OVER (PARTITION BY l.lane ORDER BY w.start_ns ROWS UNBOUNDED PRECEDING) AS reach_ns
    FROM query_table(waits) AS w
    INNER JOIN _lanes AS l
        ON
            w.trace_id = l.trace_id
            AND (w.process IS NULL OR l.host_process IS NULL OR w.process = l.host_process)
            AND (w.thread IS NULL OR l.thread IS NULL OR w.thread = l.thread OR w.thread = l.other_thread)
),

-- Most gaps have none: the others begin before the latest end of what began before their end.
_touched AS (
    SELECT l.*
    FROM _late AS l
    ASOF INNER JOIN _open AS o ON l.lane = o.lane AND l.host_ns > o.start_ns
    WHERE o.reach_ns > l.start_ns
),

_points AS (
    SELECT lane, start_ns AS ts_ns, host_ns::HUGEINT * 1099511627776 + launch_index AS gap, NULL::HUGEINT AS wait, NULL::BIGINT AS precedence
    FROM _touched
    UNION ALL
    SELECT lane, host_ns, NULL, NULL, NULL FROM _touched
    UNION ALL
    SELECT lane, start_ns, NULL, end_ns::HUGEINT * 1099511627776 + number, precedence FROM _open
    UNION ALL
    SELECT lane, end_ns, NULL, NULL, NULL FROM _open
),

_states AS (FROM _wait_states('_points')),

_pieces AS MATERIALIZED (
    SELECT
        s.lane,
        l.place,
        (s.begun_gap & 1099511627775)::BIGINT AS launch_index,
        s.ts_ns AS start_ns,
        s.next_ns AS end_ns,
        (s.wait & 1099511627775)::BIGINT AS number
    FROM _states AS s
    INNER JOIN _lanes AS l USING (lane)
    WHERE s.next_ns > s.ts_ns AND s.begun_gap >> 40 > s.ts_ns
),

_credits AS (FROM _wait_credits('_open', '_pieces')),

-- Until `host_ns` it is the host's time, after that the launch takes to start.
_free AS (
    SELECT l.owner, p.place, p.launch_index, p.start_ns, p.end_ns, p.end_ns AS host_ns, true AS is_touched
    FROM _pieces AS p
    INNER JOIN _lanes AS l USING (lane)
    WHERE p.number IS NULL
    UNION ALL
    SELECT l.owner, l.place, l.launch_index, l.start_ns, greatest(l.host_ns, l.queue_ns), l.host_ns, false
    FROM _late AS l
    ANTI JOIN _pieces AS p ON l.place = p.place AND l.launch_index = p.launch_index
    UNION ALL
    SELECT l.owner, l.place, l.launch_index, l.host_ns, l.queue_ns, l.host_ns, false
    FROM _late AS l
    SEMI JOIN _pieces AS p ON l.place = p.place AND l.launch_index = p.launch_index
    WHERE l.queue_ns > l.host_ns
),

_after AS MATERIALIZED (
    SELECT f.*, c.start_ns AS since_ns, c.number
    FROM _free AS f
    ASOF LEFT JOIN _credits AS c ON f.owner = c.owner AND f.start_ns >= c.start_ns
),

_owed AS MATERIALIZED (FROM _wait_debts('_after', '_credits'))

SELECT place, launch_index, start_ns, end_ns, number FROM _pieces WHERE number IS NOT NULL
UNION ALL
SELECT place, launch_index, start_ns, end_ns, number FROM _owed
UNION ALL
SELECT a.place, a.launch_index, coalesce(o.until_ns, a.start_ns), a.host_ns, NULL
FROM _after AS a
LEFT JOIN (SELECT place, launch_index, from_ns, max(end_ns) AS until_ns FROM _owed GROUP BY ALL) AS o
    ON a.place = o.place AND a.launch_index = o.launch_index AND a.start_ns = o.from_ns
WHERE a.host_ns > coalesce(o.until_ns, a.start_ns) AND (a.is_touched OR o.until_ns IS NOT NULL);
