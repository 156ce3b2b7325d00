-- The selected kernels of a trace, on the device with most time, in the order of their starts: of a typical step of the profiler (steady, with the median time), or
-- all of them where it wrote none. Repeats that were found in the sequence of kernels may be layers of the one program and steps of the other.
WITH ran AS (
    FROM selection WHERE trace = $trace AND timing = 'timeline' AND kind = 'kernel' AND start_ns IS NOT NULL AND duration_ns IS NOT NULL
),

most AS (SELECT device FROM ran GROUP BY device ORDER BY sum(duration_ns) DESC, device LIMIT 1),

here AS (SELECT r.* FROM ran AS r INNER JOIN most AS m ON r.device IS NOT DISTINCT FROM m.device),

repeats AS (
    SELECT iteration, coalesce(bool_or(steady_state), false) AS is_steady, sum(duration_ns) AS total_ns
    FROM here
    WHERE iteration IS NOT NULL AND starts_with(range_path, 'ProfilerStep')
    GROUP BY iteration
),

typical AS (
    SELECT iteration
    FROM repeats
    ORDER BY NOT is_steady, abs(total_ns - (SELECT coalesce(median(total_ns) FILTER (is_steady), median(total_ns)) FROM repeats)), iteration
    LIMIT 1
)

SELECT category, short_name AS name, op, module, phase, duration_ns, gemm_m, gemm_n, gemm_k, gemm_batch
FROM here
WHERE iteration = (FROM typical) OR NOT EXISTS (FROM typical)
ORDER BY start_ns, launch_index;
