SELECT
    short_name AS kernel,
    count(*) AS n,
    sum(duration_ns)::BIGINT AS total_ns,
    any_value(total_blocks) AS blocks,
    any_value(threads_per_block) AS threads,
    any_value(registers) AS registers,
    any_value(shared_bytes) AS shared_bytes,
    100 * any_value(theoretical_occupancy) AS theoretical_pct,
    any_value(theoretical_limiter) AS limiter,
    100 * avg(occupancy) AS estimated_pct
FROM kernels
WHERE trace = $trace AND timing = 'timeline' AND kind = 'kernel' AND coalesce(theoretical_occupancy, occupancy) IS NOT NULL
GROUP BY signature_id, short_name
ORDER BY total_ns DESC, signature_id
LIMIT 15;
