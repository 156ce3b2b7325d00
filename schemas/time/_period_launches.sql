-- Which repeat of the period of its device each launch belongs to, by the sequence of kernel names alone. Only devices that have a period.
-- Within it, an iteration begins behind the pause that is longest in the middle. Copies and fills belong to the iteration of the kernel before them.
-- What stands outside is labelled by where it stands, `before` or `after`, and not by what it is: before the repeats may be warm-up, tuning, or a
-- prefill.
--
-- `source` names launches of timelines that have a start, with trace, device, kind, name_id, launch_index, start_ns, end_ns and duration_ns. `steady_state`
-- are iterations but those whose kernels take over 1.5 times the median. The layers of one long step repeat as well: where the run neither lasts to
-- the end of the trace nor covers four fifths of the kernels, it cannot be decided, and `steady_state` is NULL.
CREATE OR REPLACE MACRO _period_launches(source) AS TABLE
WITH _ordered AS (FROM _kernel_order(source)),

periods AS (FROM _kernel_periods('_ordered')),

inside AS (
    SELECT
        o.trace,
        o.place,
        o.launch_index,
        o.duration_ns,
        o.pause_ns,
        p.distance,
        p.covered_pct,
        p.reaches_end,
        o.position - p.first_position AS offset_in_run
    FROM _ordered AS o
    INNER JOIN periods AS p ON o.trace = p.trace AND o.place = p.place
    WHERE o.position <= p.last_position
),

origins AS (
    SELECT trace, place, arg_max(origin, (typical, -origin)) AS origin
    FROM (
        SELECT trace, place, offset_in_run % distance AS origin, median(pause_ns) AS typical
        FROM inside
        WHERE offset_in_run >= 0
        GROUP BY ALL
    )
    GROUP BY trace, place
),

-- Whole repeats only: what begins an iteration and does not end it stands after them.
whole AS (
    SELECT
        i.trace,
        i.place,
        i.launch_index,
        i.duration_ns,
        i.reaches_end OR i.covered_pct >= 80 AS is_sure,
        i.distance,
        CASE WHEN i.offset_in_run >= o.origin THEN (i.offset_in_run - o.origin) // i.distance END AS iteration
    FROM inside AS i
    INNER JOIN origins AS o USING (trace, place)
),

repeats AS (
    SELECT
        trace,
        place,
        iteration,
        CASE WHEN any_value(is_sure) THEN sum(duration_ns) <= 1.5 * median(sum(duration_ns)) OVER (PARTITION BY trace, place) END AS steady_state
    FROM whole
    WHERE iteration IS NOT NULL
    GROUP BY trace, place, iteration
    HAVING count(*) = any_value(distance)
),

spread AS (
    SELECT
        a.trace,
        a.device,
        a.launch_index,
        a.start_ns,
        a.end_ns,
        a.duration_ns,
        a.kind = 'kernel' AS is_kernel,
        last_value(
            CASE WHEN a.kind = 'kernel' THEN coalesce(w.iteration, CASE WHEN w.trace IS NULL THEN -1 ELSE -2 END) END IGNORE NULLS
        ) OVER (PARTITION BY a.trace, a.device ORDER BY a.start_ns, a.launch_index ROWS UNBOUNDED PRECEDING) AS iteration
    FROM query_table(source) AS a
    LEFT JOIN whole AS w ON a.trace = w.trace AND coalesce(a.device, -1) = w.place AND a.launch_index = w.launch_index
    WHERE (a.trace, coalesce(a.device, -1)) IN (SELECT (trace, place) FROM periods)
)

SELECT
    s.trace,
    s.device,
    s.launch_index,
    s.is_kernel,
    s.start_ns,
    s.end_ns,
    s.duration_ns,
    q.iteration::INTEGER AS iteration,
    CASE WHEN q.iteration IS NULL THEN CASE WHEN coalesce(s.iteration, -2) = -2 THEN 'before' ELSE 'after' END END AS label,
    'period' AS method,
    CASE WHEN q.iteration IS NULL THEN false ELSE q.steady_state END AS steady_state
FROM spread AS s
LEFT JOIN repeats AS q ON s.trace = q.trace AND coalesce(s.device, -1) = q.place AND s.iteration = q.iteration;
