-- The distance at which the kernels of each place repeat, and where these repeats begin and end: one row per place that has any. `ordered` names a
-- relation like _kernel_order.
--
-- A run of repeats that matters (three repeats, a tenth of the launches or of the time) and goes on until the trace ends, with less than a period
-- after it, is preferred: tuning and warm-up come first, and may repeat for longer. Then the longest run wins, and of about equally
-- long ones the shortest distance.
CREATE OR REPLACE MACRO _kernel_periods(ordered) AS TABLE
WITH series AS (
    SELECT trace, place, count(*) AS n, sum(duration_ns) AS total_ns FROM query_table(ordered) GROUP BY trace, place
),

parted AS (
    SELECT *, sum(CASE WHEN is_break THEN 1 ELSE 0 END) OVER (in_order ROWS UNBOUNDED PRECEDING) AS island
    FROM _repeat_streaks(ordered)
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
        any_value(s.n) - max(r.last_position) < r.distance AS reaches_end,
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
)

SELECT trace, place, distance, first_position, last_position, reaches_end, covered_pct
FROM classed
WHERE length >= longest - 2 * distance AND 2 * length > longest
QUALIFY row_number() OVER (PARTITION BY trace, place ORDER BY is_last DESC, distance, length DESC, first_position) = 1;
