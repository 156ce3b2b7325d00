-- Repeats of a program, one row per iteration and device, and one for what stands outside of them; how they are found: see
-- iteration_launches. `covered_pct` is the share of the kernels of the device that are in iterations.
CREATE OR REPLACE MACRO iterations(source) AS TABLE
WITH summed AS (
    SELECT
        trace,
        device,
        iteration,
        label,
        method,
        any_value(steady) AS steady,
        count(*) FILTER (is_kernel) AS launches,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns,
        try_cast(coalesce(sum(duration_ns) FILTER (is_kernel), 0) AS BIGINT) AS total_ns,
        min(launch_index) AS first_launch_index,
        max(launch_index) AS last_launch_index
    FROM iteration_launches(source)
    GROUP BY trace, device, iteration, label, method
),

kernels_of AS (
    SELECT trace, device, count(*) AS n
    FROM query_table(source)
    WHERE timing = 'timeline' AND kind = 'kernel' AND start_ns IS NOT NULL
    GROUP BY trace, device
)

SELECT
    s.trace,
    s.device,
    s.iteration,
    s.label,
    s.method,
    s.steady,
    100 * sum(s.launches) FILTER (s.iteration IS NOT NULL) OVER (PARTITION BY s.trace, s.device) / k.n AS covered_pct,
    s.launches,
    s.start_ns,
    s.end_ns,
    s.end_ns - s.start_ns AS span_ns,
    s.total_ns,
    s.first_launch_index,
    s.last_launch_index
FROM summed AS s
LEFT JOIN kernels_of AS k ON s.trace = k.trace AND s.device IS NOT DISTINCT FROM k.device
ORDER BY s.trace, s.device, s.start_ns, s.iteration, s.label;
