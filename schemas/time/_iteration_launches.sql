-- Which iteration of its program each launch belongs to. Where the profiler wrote steps (`ProfilerStep#7`), those are the iterations, and a launch is
-- in the step in which the host made it. Elsewhere the sequence of kernel names tells: a period is a distance at which kernels have the name of the
-- one before, with one in ten at most that differs in a row (lengths choose kernels). Of the distances between equal names the twelve that explain
-- most launches are tried. A run of repeats that matters (three repeats, a tenth of the launches or of the time) and goes on until the trace ends,
-- with less than a period behind it, goes before any other: tuning and warm-up stand in front, and may repeat for longer. Then the longest run wins,
-- and of about equally long ones the shortest distance. Within the period, an iteration begins behind the pause that is longest in the middle. Copies
-- and fills belong to the iteration of the kernel before them. What stands outside is labelled by where it stands, `before`, `after`, or `between`
-- two steps of the profiler, and not by what it is: before the repeats may be warm-up, tuning, or a prefill.
--
-- `steady` are iterations but those whose kernels take over 1.5 times the median. The layers of one long step repeat as well: where the run neither
-- lasts to the end of the trace nor covers four fifths of the kernels, nobody can tell, and `steady` is NULL.
CREATE OR REPLACE MACRO _iteration_launches(source) AS TABLE
WITH activities AS (
    SELECT
        trace,
        trace_id,
        device,
        kind = 'kernel' AS is_kernel,
        name_id,
        launch_index,
        coalesce(launch_start_ns, start_ns) AS host_ns,
        start_ns,
        end_ns,
        duration_ns
    FROM query_table(source)
    WHERE timing = 'timeline' AND start_ns IS NOT NULL
),

-- Of steps that begin at one moment, in several processes, the longest.
steps AS (
    SELECT trace_id, arg_max(name, (coalesce(end_ns, start_ns), name)) AS name, start_ns, max(end_ns) AS end_ns
    FROM (
        SELECT trace_id, name, start_ns, start_ns + duration_ns AS end_ns
        FROM ranges
        WHERE name LIKE 'ProfilerStep#%' AND device IS NULL AND trace_id IN (SELECT trace_id FROM activities)
        UNION ALL
        SELECT trace_id, name, start_ns, start_ns + duration_ns AS end_ns
        FROM ops
        WHERE name LIKE 'ProfilerStep#%' AND trace_id IN (SELECT trace_id FROM activities)
    )
    GROUP BY trace_id, start_ns
),

extents AS (
    SELECT trace_id, min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM steps GROUP BY trace_id
),

stepped AS (
    SELECT
        a.trace,
        a.device,
        a.is_kernel,
        a.launch_index,
        a.start_ns,
        a.end_ns,
        a.duration_ns,
        CASE WHEN a.host_ns < s.end_ns THEN s.name END AS step,
        CASE WHEN a.host_ns < a.first_ns THEN 'before' WHEN a.host_ns >= a.last_ns THEN 'after' ELSE 'between' END AS outside
    FROM (FROM activities INNER JOIN extents USING (trace_id)) AS a
    ASOF LEFT JOIN steps AS s ON a.trace_id = s.trace_id AND a.host_ns >= s.start_ns
),

annotated AS (
    SELECT DISTINCT trace, coalesce(device, -1) AS place FROM stepped WHERE step IS NOT NULL
),

-- Numbers compare faster than ids. `step` is more than any of them.
names AS (
    SELECT name_id, row_number() OVER () AS name, 1 + count(*) OVER () AS step
    FROM (SELECT DISTINCT name_id FROM activities WHERE is_kernel AND name_id IS NOT NULL)
),

-- One number for all kernels, so that a kernel finds the one of its name a period before it by a single integer.
ordered AS (
    SELECT
        a.trace,
        coalesce(a.device, -1) AS place,
        n.name,
        lag(n.name) OVER in_time AS name_before,
        lead(n.name) OVER in_time AS name_after,
        a.launch_index,
        a.duration_ns,
        coalesce(sum(a.duration_ns) OVER (in_time ROWS UNBOUNDED PRECEDING), 0) AS spent_ns,
        a.start_ns - lag(a.end_ns) OVER in_time AS pause_ns,
        row_number() OVER in_time AS position,
        n.step,
        position * n.step + n.name AS named_position
    FROM activities AS a
    LEFT JOIN names AS n ON a.name_id = n.name_id
    WHERE a.is_kernel AND (a.trace, coalesce(a.device, -1)) NOT IN (SELECT (trace, place) FROM annotated)
    WINDOW in_time AS (ORDER BY a.trace, coalesce(a.device, -1), a.start_ns, a.launch_index)
),

series AS (
    SELECT trace, place, min(position) AS first_position, max(position) AS last_position, count(*) AS n, sum(duration_ns) AS total_ns
    FROM ordered
    GROUP BY trace, place
),

candidates AS (
    SELECT s.trace, s.place, s.first_position, s.last_position, d.distance
    FROM (
        SELECT trace, place, position - lag(position) OVER (PARTITION BY hash(trace, place, name) ORDER BY position) AS distance FROM ordered
    ) AS d
    INNER JOIN series AS s USING (trace, place)
    WHERE d.distance IS NOT NULL
    GROUP BY s.trace, s.place, s.first_position, s.last_position, d.distance
    QUALIFY row_number() OVER (PARTITION BY s.trace, s.place ORDER BY sum(d.distance) DESC, d.distance) <= 12
),

-- Of kernels in a row that have the name of the one before, the first and the last: few, so that what follows sorts little.
edges AS (
    SELECT
        c.trace,
        c.place,
        c.distance,
        a.position,
        a.spent_ns,
        a.duration_ns,
        NOT coalesce(a.position - c.distance > c.first_position AND a.name_before = b.name_before, false) AS is_first,
        NOT coalesce(a.position < c.last_position AND a.name_after = b.name_after, false) AS is_final
    FROM candidates AS c
    INNER JOIN ordered AS a ON c.trace = a.trace AND c.place = a.place
    INNER JOIN ordered AS b ON b.named_position = a.named_position - c.distance * a.step
    WHERE a.position - c.distance >= c.first_position AND (is_first OR is_final)
),

streaks AS (
    SELECT
        trace,
        place,
        distance,
        position AS first_position,
        CASE WHEN is_final THEN position ELSE lead(position) OVER in_order END AS last_position,
        CASE WHEN is_final THEN 0 ELSE lead(spent_ns) OVER in_order - spent_ns END + coalesce(duration_ns, 0) AS total_ns
    FROM edges
    WINDOW in_order AS (PARTITION BY trace, place, distance ORDER BY position)
    QUALIFY is_first
),

parted AS (
    SELECT *, sum(CASE WHEN is_break THEN 1 ELSE 0 END) OVER (in_order ROWS UNBOUNDED PRECEDING) AS island
    FROM (
        SELECT *, coalesce(first_position - lag(last_position) OVER in_order > 1 + distance // 10, true) AS is_break
        FROM streaks
        WINDOW in_order AS (PARTITION BY trace, place, distance ORDER BY first_position)
    )
    WINDOW in_order AS (PARTITION BY trace, place, distance ORDER BY first_position)
),

runs AS (
    SELECT
        r.trace,
        r.place,
        r.distance,
        min(r.first_position) - r.distance AS first_position,
        max(r.last_position) AS last_position,
        sum(1 + r.last_position - r.first_position)::BIGINT AS length,
        any_value(s.last_position) - max(r.last_position) < r.distance AS reaches_end,
        100 * (length + r.distance) / any_value(s.n) AS covered_pct,
        greatest((length + r.distance) / any_value(s.n), sum(r.total_ns) / nullif(any_value(s.total_ns), 0)) >= 0.1 AS is_large
    FROM parted AS r
    INNER JOIN series AS s USING (trace, place)
    GROUP BY r.trace, r.place, r.distance, r.island
    HAVING length >= r.distance
),

classed AS (
    SELECT
        *,
        reaches_end AND is_large AND length >= 2 * distance AS is_last,
        max(length) OVER (PARTITION BY trace, place, reaches_end AND is_large AND length >= 2 * distance) AS longest
    FROM runs
),

periods AS (
    SELECT *
    FROM classed
    WHERE length >= longest - 2 * distance AND 2 * length > longest
    QUALIFY row_number() OVER (PARTITION BY trace, place ORDER BY is_last DESC, distance, length DESC, first_position) = 1
),

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
    FROM ordered AS o
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
        i.covered_pct,
        i.reaches_end OR i.covered_pct >= 80 AS is_sure,
        i.distance,
        CASE WHEN i.offset_in_run >= o.origin THEN (i.offset_in_run - o.origin) // i.distance END AS iteration
    FROM inside AS i
    INNER JOIN origins AS o USING (trace, place)
),

repeats AS (
    SELECT trace, place, iteration, sum(duration_ns) AS total_ns, count(*) = any_value(distance) AS is_whole, any_value(is_sure) AS is_sure
    FROM whole
    WHERE iteration IS NOT NULL
    GROUP BY trace, place, iteration
),

sequences AS (
    SELECT
        trace,
        place,
        iteration,
        NULL::VARCHAR AS step,
        'period' AS method,
        CASE WHEN is_sure THEN total_ns <= 1.5 * median(total_ns) OVER (PARTITION BY trace, place) END AS steady
    FROM repeats
    WHERE is_whole
),

marked AS (
    SELECT
        trace,
        coalesce(device, -1) AS place,
        row_number() OVER (PARTITION BY trace, coalesce(device, -1) ORDER BY min(start_ns), step) - 1 AS iteration,
        step,
        'annotation' AS method,
        sum(duration_ns) FILTER (is_kernel)
        <= 1.5 * median(sum(duration_ns) FILTER (is_kernel)) OVER (PARTITION BY trace, coalesce(device, -1)) AS steady
    FROM stepped
    WHERE step IS NOT NULL
    GROUP BY trace, coalesce(device, -1), step
),

spread AS (
    SELECT
        a.trace,
        a.device,
        a.launch_index,
        a.start_ns,
        a.end_ns,
        a.duration_ns,
        a.is_kernel,
        last_value(CASE WHEN a.is_kernel THEN coalesce(w.iteration, CASE WHEN w.trace IS NULL THEN -1 ELSE -2 END) END IGNORE NULLS) OVER (
            PARTITION BY a.trace, a.device ORDER BY a.start_ns, a.launch_index ROWS UNBOUNDED PRECEDING
        ) AS iteration
    FROM activities AS a
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
    CASE WHEN q.iteration IS NULL THEN false ELSE q.steady END AS steady
FROM spread AS s
LEFT JOIN sequences AS q ON s.trace = q.trace AND coalesce(s.device, -1) = q.place AND s.iteration = q.iteration
UNION ALL
SELECT
    a.trace,
    a.device,
    a.launch_index,
    a.is_kernel,
    a.start_ns,
    a.end_ns,
    a.duration_ns,
    m.iteration::INTEGER AS iteration,
    coalesce(a.step, a.outside) AS label,
    'annotation' AS method,
    CASE WHEN a.step IS NULL THEN false ELSE m.steady END AS steady
FROM stepped AS a
INNER JOIN annotated AS n ON a.trace = n.trace AND coalesce(a.device, -1) = n.place
LEFT JOIN marked AS m ON a.trace = m.trace AND coalesce(a.device, -1) = m.place AND a.step = m.step;
