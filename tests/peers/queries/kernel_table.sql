SELECT
    count(*) AS calls,
    sum(duration_ns) / 1000 AS total_us,
    avg(duration_ns) / 1000 AS mean_us,
    max(duration_ns) / 1000 AS max_us,
    min(duration_ns) / 1000 AS min_us,
    sum(blocks_per_multiprocessor * duration_ns) / sum(duration_ns) AS blocks_per_multiprocessor,
    100 * sum(occupancy * duration_ns) / sum(duration_ns) AS occupancy_pct,
    CASE WHEN any_value(uses_tensor_cores(name)) THEN 'Yes' ELSE 'No' END AS tensor_cores
FROM kernels
WHERE trace = $trace AND kind = 'kernel' AND name = $kernel
HAVING count(*) > 0;
