-- Collective operations by kind, size and group: how often, how long, and the bandwidth of the median launch. A launch lasts until the
-- slowest rank has come, so the shortest one is the nearest to the transfer alone; see collective_waits.
CREATE OR REPLACE MACRO collectives(source) AS TABLE
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
