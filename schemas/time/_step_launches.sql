-- Iterations that are steps of the profiler, of launches like those of _launch_steps. Only devices that have launches in steps; what is outside is
-- labelled by where it stands. `steady_state` are steps but those whose kernels take over 1.5 times the median.
CREATE OR REPLACE MACRO _step_launches(stepped) AS TABLE
WITH marked AS (
    SELECT
        trace,
        place,
        row_number() OVER (PARTITION BY trace, place ORDER BY min(start_ns), step) - 1 AS iteration,
        step,
        sum(duration_ns) FILTER (is_kernel)
        <= 1.5 * median(sum(duration_ns) FILTER (is_kernel)) OVER (PARTITION BY trace, place) AS steady_state
    FROM query_table(stepped)
    WHERE step IS NOT NULL
    GROUP BY trace, place, step
)

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
    CASE WHEN a.step IS NULL THEN false ELSE m.steady_state END AS steady_state
FROM query_table(stepped) AS a
LEFT JOIN marked AS m ON a.trace = m.trace AND a.place = m.place AND a.step = m.step
WHERE (a.trace, a.place) IN (SELECT (trace, place) FROM marked);
