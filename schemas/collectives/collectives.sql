-- Collective operations by kind, size and group.
--
-- Collective operations by kind, size and group: how often, how long, and the bandwidth of the median launch. A launch lasts until the slowest rank
-- has come, so the shortest one is the nearest to the transfer alone; see collective_waits.
--
-- Columns:
--   trace: as in kernels
--   rank INTEGER: Rank of the process.
--   operation VARCHAR: Operation, without underscores.
--   algorithm VARCHAR: Algorithm in the name of the kernel.
--   protocol VARCHAR: Protocol in the name of the kernel.
--   dtype VARCHAR: Type of the elements.
--   bytes BIGINT [bytes]: Larger of what a rank gives and gets.
--   group_name: as in kernels
--   group_size INTEGER: Number of ranks of the group.
--   n: as in kernel_rollups
--   total_ns BIGINT [ns]: Summed duration.
--   min_ns BIGINT [ns]: Shortest.
--   median_ns DOUBLE [ns]: Median.
--   max_ns BIGINT [ns]: Longest.
--   median_algorithm_gbs DOUBLE [GB/s]: Median of bytes over duration.
--   median_bus_gbs DOUBLE [GB/s]: Median of the bus bandwidth.
--   max_bus_gbs DOUBLE [GB/s]: Greatest bus bandwidth.
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
