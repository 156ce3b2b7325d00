-- The iterations that a program repeats: one row per iteration and device, and one for the launches before, between and after them.
--
-- Iterations are the steps that the profiler wrote (`ProfilerStep#7`), else the repeats of a period in the sequence of kernels.
--
-- Columns:
--   trace, device: as in kernels
--   iteration INTEGER: Number of the iteration; NULL outside of them.
--   label VARCHAR: Name of the step, or for launches outside of iterations: before (warm-up, tuning, a prefill), after, or between two steps
--     of the profiler.
--   method VARCHAR: How it was found: annotation (steps of the profiler) or period.
--   steady_state BOOLEAN: Whether the iteration is like the others: its kernels take no more than 1.5 times the median; NULL where it cannot be decided whether
--     these are iterations or the layers of one step.
--   covered_pct DOUBLE [%]: Share of the kernels of the device that are in iterations.
--   launches BIGINT: Number of launches, copies and fills among them.
--   start_ns BIGINT [ns]: Start of the first launch.
--   end_ns BIGINT [ns]: End of the last launch.
--   span_ns: as in gpu_time
--   total_ns BIGINT [ns]: Summed duration of the launches.
--   first_launch_index BIGINT: Smallest launch_index of them.
--   last_launch_index BIGINT: Greatest launch_index of them.
-- Example:
--   SELECT trace, device, iteration, label, method, steady_state, launches, span_ns FROM iterations();
CREATE OR REPLACE MACRO iterations(source := 'kernels') AS TABLE
WITH _summed AS (
    SELECT
        trace,
        device,
        iteration,
        label,
        method,
        any_value(steady_state) AS steady_state,
        count(*) AS launches,
        count(*) FILTER (is_kernel) AS kernels,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns,
        try_cast(coalesce(sum(duration_ns), 0) AS BIGINT) AS total_ns,
        min(launch_index) AS first_launch_index,
        max(launch_index) AS last_launch_index
    FROM _iteration_launches(source)
    GROUP BY trace, device, iteration, label, method
),

_kernels_of AS (
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
    s.steady_state,
    100 * sum(s.kernels) FILTER (s.iteration IS NOT NULL) OVER (PARTITION BY s.trace, s.device) / k.n AS covered_pct,
    s.launches,
    s.start_ns,
    s.end_ns,
    s.end_ns - s.start_ns AS span_ns,
    s.total_ns,
    s.first_launch_index,
    s.last_launch_index
FROM _summed AS s
LEFT JOIN _kernels_of AS k ON s.trace = k.trace AND s.device IS NOT DISTINCT FROM k.device
ORDER BY s.trace, s.device, s.start_ns, s.iteration, s.label;
