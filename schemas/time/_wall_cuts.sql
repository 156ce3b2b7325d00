-- The pieces of `_wall_pieces` as numbers: the device (`place`), what it is (`code`, as in `_wall_causes`), and the wait of the host (`number`). `used` names rows of
-- `_wall_launches`, `places` of `_wall_places`, `waits` of `_host_waits`. `fact` is that of the launch; `needed` and `is_compute` are known of computation.
CREATE OR REPLACE MACRO _wall_cuts(used, places, waits) AS TABLE
WITH _swept AS MATERIALIZED (FROM _wall_sweep(used)),

_event_waits AS (
    SELECT DISTINCT trace_id
    FROM api_calls
    WHERE trace_id IN (SELECT trace_id FROM query_table(places)) AND name ILIKE '%StreamWaitEvent%'
),

-- Threads matter where anything may have held them up, or an event was waited for.
_gaps AS (
    SELECT g.place, p.trace_id, g.next_index AS launch_index, g.copied_ns AS start_ns, g.next_ns AS end_ns, g.host_ns, g.api_index, g.previous_api
    FROM _swept AS g
    INNER JOIN query_table(places) AS p USING (place)
    WHERE
        g.next_ns > g.copied_ns
        AND (
            (g.host_ns > g.copied_ns AND p.trace_id IN (SELECT trace_id FROM query_table(waits)))
            OR (g.host_ns IS NOT NULL AND p.trace_id IN (FROM _event_waits))
        )
),

_threads AS MATERIALIZED (FROM _wall_threads(used, places, '_gaps')),

_ordered_gaps AS MATERIALIZED (FROM _wall_ordered(used, places, '_threads')),

-- A launch starts some µs after its call; of what takes longer than 100 µs the reason is not known.
_late AS (
    SELECT t.*, f.first_ns, CASE WHEN o.is_ordered THEN t.host_ns ELSE least(t.end_ns, t.host_ns + 100000) END AS queue_ns
    FROM _threads AS t
    INNER JOIN (SELECT place, min(start_ns) AS first_ns FROM _swept GROUP BY place) AS f USING (place)
    LEFT JOIN _ordered_gaps AS o USING (place, launch_index)
    WHERE t.host_ns > t.start_ns
),

_held AS MATERIALIZED (FROM _wall_held('_late', waits)),

_sent AS (
    SELECT place, communicating AS launch_index, computed_ns AS start_ns, communicated_ns AS end_ns FROM _swept WHERE communicated_ns > computed_ns
),

_joined AS (FROM _wall_exchanges('_sent', places)),

-- Of the host's calls that are to blame, some have the time in which the launch started, too.
_owed AS (SELECT place, launch_index, max(end_ns) AS owed_ns FROM _held GROUP BY ALL),

_queued AS (
    SELECT
        g.place,
        g.next_index AS launch_index,
        greatest(g.copied_ns, g.host_ns, h.owed_ns) AS start_ns,
        (CASE WHEN o.is_ordered THEN 7 WHEN g.host_ns > g.copied_ns THEN 8 ELSE 9 END)::TINYINT AS code,
        CASE
            WHEN o.is_ordered THEN g.next_ns
            WHEN g.host_ns IS NOT NULL THEN least(g.next_ns, g.host_ns + 100000)
            ELSE g.copied_ns
        END AS queued_ns,
        g.next_ns AS end_ns,
        g.next_fact AS fact
    FROM _swept AS g
    LEFT JOIN _ordered_gaps AS o ON g.place = o.place AND g.next_index = o.launch_index
    LEFT JOIN _owed AS h ON g.place = h.place AND g.next_index = h.launch_index
    WHERE g.next_ns > g.copied_ns
),

_pieces AS (
    SELECT
        place, 1::TINYINT AS code, start_ns, computed_ns AS end_ns, computing AS launch_index, NULL::BIGINT AS number, NULL::INTEGER AS late_rank,
        CASE WHEN computing = launch_index THEN fact END AS fact,
        CASE WHEN computing = launch_index THEN needed END AS needed,
        CASE WHEN computing = launch_index THEN is_compute END AS is_compute
    FROM _swept
    WHERE computed_ns > start_ns
    UNION ALL
    SELECT place, 2, communicated_ns, copied_ns, copying, NULL, NULL, CASE WHEN copying = launch_index THEN fact END, NULL, NULL
    FROM _swept
    WHERE copied_ns > communicated_ns
    UNION ALL
    SELECT place, 3, start_ns, joined_ns, launch_index, NULL, late_rank, NULL, NULL, NULL FROM _joined WHERE joined_ns > start_ns
    UNION ALL
    SELECT place, CASE WHEN is_split THEN 4 ELSE 5 END, joined_ns, end_ns, launch_index, NULL, NULL, NULL, NULL, NULL
    FROM _joined
    WHERE end_ns > joined_ns
    UNION ALL
    SELECT g.place, 6, h.start_ns, h.end_ns, h.launch_index, h.number, NULL, g.next_fact, NULL, NULL
    FROM _held AS h
    INNER JOIN _swept AS g ON h.place = g.place AND h.launch_index = g.next_index
    UNION ALL
    SELECT g.place, 6, g.copied_ns, g.host_ns, g.next_index, NULL, NULL, g.next_fact, NULL, NULL
    FROM _swept AS g
    ANTI JOIN _held AS h ON g.place = h.place AND g.next_index = h.launch_index
    WHERE g.host_ns > g.copied_ns
    UNION ALL
    SELECT place, code, start_ns, queued_ns, launch_index, NULL, NULL, fact, NULL, NULL FROM _queued WHERE queued_ns > start_ns
    UNION ALL
    SELECT place, 10, queued_ns, end_ns, launch_index, NULL, NULL, fact, NULL, NULL FROM _queued WHERE end_ns > queued_ns
)

-- A launch that goes on after the next one has begun is looked up: most do not.
SELECT
    p.place,
    p.code,
    p.start_ns,
    p.end_ns,
    p.launch_index,
    p.number,
    p.late_rank,
    coalesce(p.fact, o.fact) AS fact,
    CASE WHEN p.code = 1 THEN coalesce(p.needed, o.needed) END AS needed,
    CASE WHEN p.code = 1 THEN coalesce(p.is_compute, o.is_compute) END AS is_compute
FROM _pieces AS p
LEFT JOIN (SELECT place, launch_index, fact, needed, is_compute FROM _swept WHERE reaches) AS o
    ON p.place = o.place AND CASE WHEN p.fact IS NULL THEN p.launch_index END = o.launch_index;
