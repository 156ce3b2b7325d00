-- What held up the host in the gaps in which anything did: pieces that cover each such gap from its start to `host_ns`. `number` is the wait of
-- `_host_waits`, NULL where none was open. `gaps` names gaps of `_wall_sweep` with the trace, process and thread
-- of the launch call that ends them (`host_process`, `thread`) and the thread of the one before (`other_thread`); `waits` names rows of `_host_waits`.
--
-- Where nothing was open any more, after a call that waited for the GPU had ended in the same gap, the piece still counts for that call, as far as the call
-- lasted: had it taken no time, the host would have come so much earlier.
CREATE OR REPLACE MACRO _wall_held(gaps, waits) AS TABLE
-- A gap is the matter of the thread that ends it and of the one that launched before it.
WITH _lanes AS (
    SELECT *, row_number() OVER (ORDER BY place, host_process, thread, other_thread) AS lane
    FROM (SELECT DISTINCT place, trace_id, host_process, thread, other_thread FROM query_table(gaps))
),

_late AS (
    SELECT g.place, g.launch_index, g.start_ns, g.host_ns, l.lane
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
        l.lane, w.start_ns, w.end_ns, w.precedence, w.number,
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

_states AS (
    SELECT
        lane,
        ts_ns,
        lead(ts_ns) OVER in_time AS next_ns,
        max(gap) OVER so_far AS gap,
        [
            max(CASE WHEN precedence = 1 THEN wait END) OVER so_far,
            max(CASE WHEN precedence = 2 THEN wait END) OVER so_far,
            max(CASE WHEN precedence = 3 THEN wait END) OVER so_far,
            max(CASE WHEN precedence = 4 THEN wait END) OVER so_far,
            max(CASE WHEN precedence = 5 THEN wait END) OVER so_far,
            max(CASE WHEN precedence = 6 THEN wait END) OVER so_far,
            max(CASE WHEN precedence = 7 THEN wait END) OVER so_far,
            max(CASE WHEN precedence = 8 THEN wait END) OVER so_far
        ] AS begun
    FROM _points
    WINDOW
        in_time AS (PARTITION BY lane ORDER BY ts_ns),
        so_far AS (PARTITION BY lane ORDER BY ts_ns RANGE UNBOUNDED PRECEDING)
),

_pieces AS MATERIALIZED (
    SELECT
        l.place,
        (s.gap % 1099511627776)::BIGINT AS launch_index,
        s.ts_ns AS start_ns,
        s.next_ns AS end_ns,
        (list_filter(s.begun, lambda one : one // 1099511627776 > s.ts_ns)[1] % 1099511627776)::BIGINT AS number
    FROM _states AS s
    INNER JOIN _lanes AS l USING (lane)
    WHERE s.next_ns > s.ts_ns AND s.gap // 1099511627776 > s.ts_ns
),

-- The waits for the GPU that ended in each gap, and how much longer than in the gap they lasted.
_ended AS (
    SELECT
        p.place,
        p.launch_index,
        arg_max(p.number, w.end_ns - w.start_ns) AS number,
        max(w.end_ns) AS ended_ns,
        (sum(w.end_ns - w.start_ns) - sum(p.in_gap_ns))::BIGINT AS rest_ns
    FROM (
        SELECT place, launch_index, number, sum(end_ns - start_ns) AS in_gap_ns
        FROM _pieces
        WHERE number IS NOT NULL
        GROUP BY ALL
    ) AS p
    INNER JOIN query_table(waits) AS w ON p.number = w.number AND w.is_blocking
    GROUP BY p.place, p.launch_index
),

_after AS (
    SELECT
        p.*,
        e.number AS blamed,
        e.rest_ns,
        CASE WHEN p.number IS NULL AND p.start_ns >= e.ended_ns THEN p.end_ns - p.start_ns ELSE 0 END AS after_ns
    FROM _pieces AS p
    LEFT JOIN _ended AS e USING (place, launch_index)
),

_late_until AS (
    SELECT
        *,
        start_ns + CASE
            WHEN after_ns > 0 THEN greatest(0, least(after_ns, rest_ns + after_ns - sum(after_ns) OVER so_far))
            ELSE 0
        END::BIGINT AS until_ns
    FROM _after
    WINDOW so_far AS (PARTITION BY place, launch_index ORDER BY start_ns ROWS UNBOUNDED PRECEDING)
)

SELECT place, launch_index, start_ns, until_ns AS end_ns, blamed AS number
FROM _late_until
WHERE until_ns > start_ns
UNION ALL
SELECT place, launch_index, until_ns, end_ns, number
FROM _late_until
WHERE end_ns > until_ns;
