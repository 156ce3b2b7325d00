-- One row per kernel and launch shape, whatever it was called with.
SELECT
    short_name AS kernel,
    count(*) AS n,
    try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
    total_blocks AS blocks,
    threads_per_block AS threads,
    registers,
    shared_bytes,
    100 * min(theoretical_occupancy) AS theoretical_pct,
    min(theoretical_limiter) AS limiter,
    100 * avg(occupancy) AS estimated_pct
FROM kernels
WHERE trace = $trace AND timing = 'timeline' AND kind = 'kernel' AND coalesce(theoretical_occupancy, occupancy) IS NOT NULL
GROUP BY name_id, short_name, total_blocks, threads_per_block, registers, shared_bytes
ORDER BY total_ns DESC, name_id, blocks, threads, registers, shared_bytes
LIMIT 15;
