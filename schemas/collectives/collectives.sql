-- How often, how long and how fast collective operations ran, by operation, size and group.
--
-- A launch lasts until the slowest rank has come, so the shortest one is the nearest to the transfer alone; see `collective_waits`.
--
-- Columns:
--   trace, rank: as in kernels
--   operation, algorithm, protocol, dtype, bytes: as in collective_launches
--   group_name, group_size: as in kernels
--   n, total_ns, min_ns: as in kernel_rollups
--   median_ns: as in rollups
--   max_ns: as in kernel_rollups
--   median_algorithm_gbs DOUBLE [GB/s]: Median of bytes over duration.
--   median_bus_gbs DOUBLE [GB/s]: Median of the bus bandwidth of the launches.
--   max_bus_gbs DOUBLE [GB/s]: Greatest bus bandwidth.
-- Example:
--   SELECT trace, rank, operation, bytes, group_size, n, total_ns, median_bus_gbs FROM collectives();
CREATE OR REPLACE MACRO collectives(source := 'kernels') AS TABLE
SELECT
    trace,
    rank,
    operation,
    algorithm,
    protocol,
    dtype,
    bytes,
    group_name,
    group_size,
    count(*) AS n,
    try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
    min(duration_ns) AS min_ns,
    median(duration_ns) AS median_ns,
    max(duration_ns) AS max_ns,
    median(algorithm_gbs) AS median_algorithm_gbs,
    median(bus_gbs) AS median_bus_gbs,
    max(bus_gbs) AS max_bus_gbs
FROM collective_launches(source)
GROUP BY ALL
ORDER BY total_ns DESC, trace, operation, bytes, dtype, algorithm, protocol, group_name, group_size;
