-- What happens on the host threads that launch, from the first launch call of a trace on: launch calls, and the starts and ends of `_host_waits`, each with the
-- point before it on its thread (`previous`), what the thread was in since then (`cause`, `call`), and the launch that it leads to (`run`). A thread that was in
-- no call and no operator for 100 µs, or did not launch before, goes on from the last point of the other threads of its process.
WITH runs AS (FROM critical_runs),

launching AS (
    SELECT r.trace_id, r.shift_ns, coalesce(c.process, r.process, '') AS process, coalesce(c.thread, '') AS thread, r.launch_start_ns AS ts_ns, r.run
    FROM runs AS r
    LEFT JOIN api_calls AS c ON r.trace_id = c.trace_id AND r.api_index = c.api_index
    WHERE r.run = r.call_run
),

lanes AS (
    SELECT *, row_number() OVER (ORDER BY trace_id, process, thread) AS lane
    FROM (
        SELECT trace_id, process, thread, any_value(shift_ns) AS shift_ns, min(min(ts_ns)) OVER (PARTITION BY trace_id) AS first_ns, max(ts_ns) AS last_ns
        FROM launching
        GROUP BY trace_id, process, thread
    )
),

waits AS MATERIALIZED (FROM _host_waits('runs')),

held AS (
    SELECT
        l.lane, greatest(w.start_ns - l.shift_ns, l.first_ns) AS start_ns, w.end_ns - l.shift_ns AS end_ns, w.number, w.precedence, w.api_index,
        w.cause IN ('synchronisation', 'blocking copy') OR regexp_matches(w.name, '(?i)free') AS is_waiting
    FROM waits AS w
    INNER JOIN lanes AS l
        ON w.trace_id = l.trace_id AND (w.process IS NULL OR w.process = l.process) AND (w.thread IS NULL OR w.thread = l.thread)
    WHERE w.end_ns - l.shift_ns > l.first_ns AND w.start_ns - l.shift_ns < l.last_ns
),

-- What a call waits for: what it launched itself, or the stream that the trace names.
awaited AS (
    SELECT w.number, max(r.run) AS launched, max(coalesce(s.waits_on_stream, s.stream)) AS stream
    FROM waits AS w
    INNER JOIN api_calls AS c ON w.trace_id = c.trace_id AND w.api_index = c.api_index
    LEFT JOIN sync_events AS s ON c.trace_id = s.trace_id AND c.correlation_id = s.correlation_id AND s.kind IN ('stream_sync', 'event_sync')
    LEFT JOIN runs AS r ON c.trace_id = r.trace_id AND c.api_index = r.api_index
    GROUP BY w.number
),

points AS (
    SELECT l.lane, p.ts_ns, 2 AS kind, p.run, NULL::BIGINT AS number, NULL::HUGEINT AS wait, NULL::BIGINT AS precedence, NULL::HUGEINT AS gap
    FROM launching AS p
    INNER JOIN lanes AS l USING (trace_id, process, thread)
    UNION ALL
    SELECT lane, start_ns, 1, NULL, number, end_ns::HUGEINT * 1099511627776 + number, precedence, NULL FROM held
    UNION ALL
    SELECT lane, end_ns, 0, NULL, CASE WHEN is_waiting THEN number END, NULL, NULL, NULL FROM held
),

ordered AS (
    SELECT row_number() OVER (ORDER BY l.trace_id, p.ts_ns, l.lane, p.kind, p.run, p.number) AS point, l.trace_id, l.process, l.thread, l.shift_ns, p.* EXCLUDE (begun_gap)
    FROM _wait_states('points') AS p
    INNER JOIN lanes AS l USING (lane)
),

chained AS (
    SELECT
        *,
        lag(point) OVER thread AS own,
        lag(ts_ns) OVER thread AS own_ns,
        lag(wait) OVER thread AS open,
        lag(point) OVER process AS other,
        lag(ts_ns) OVER process AS other_ns,
        first_value(run IGNORE NULLS) OVER (thread ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS leads_to
    FROM ordered
    WINDOW thread AS (PARTITION BY lane ORDER BY point), process AS (PARTITION BY trace_id, process ORDER BY point)
),

silent AS (
    SELECT c.point
    FROM chained AS c
    ASOF LEFT JOIN (
        SELECT trace_id, coalesce(process, '') AS process, coalesce(thread, '') AS thread, start_ns, start_ns + duration_ns AS end_ns
        FROM ops
        WHERE parent_id IS NULL AND trace_id IN (SELECT trace_id FROM lanes GROUP BY trace_id HAVING count(*) > 1)
    ) AS o
        ON c.trace_id = o.trace_id AND c.process = o.process AND c.thread = o.thread AND c.own_ns + c.shift_ns >= o.start_ns
    WHERE c.other <> c.own AND c.ts_ns - c.own_ns >= 100000 AND c.open IS NULL AND coalesce(o.end_ns - c.shift_ns < c.ts_ns, true)
)

SELECT
    c.point,
    c.trace_id,
    c.ts_ns,
    CASE WHEN c.own IS NULL OR s.point IS NOT NULL THEN c.other ELSE c.own END AS previous,
    CASE WHEN c.own IS NULL OR s.point IS NOT NULL THEN c.other_ns ELSE c.own_ns END AS previous_ns,
    coalesce(w.cause, 'launching') AS cause,
    w.name AS call,
    CASE WHEN c.kind = 2 THEN c.run END AS launches,
    c.leads_to AS run,
    c.kind = 0 AND c.number IS NOT NULL AS is_waiting,
    b.launched AS copied,
    b.stream
FROM chained AS c
LEFT JOIN silent AS s USING (point)
LEFT JOIN awaited AS b ON c.kind = 0 AND c.number = b.number
LEFT JOIN waits AS w ON (c.open & 1099511627775)::BIGINT = w.number AND s.point IS NULL AND c.own IS NOT NULL
ORDER BY c.point;
