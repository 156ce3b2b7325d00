SELECT
    sum(exposed_memcpy_ns)::DOUBLE AS at_stake_ns,
    100 * sum(exposed_memcpy_ns) / sum(span_ns) AS share_pct,
    (
        SELECT short_name
        FROM top_kernels()
        WHERE trace = $trace AND timing = 'timeline' AND kind = 'memcpy'
        ORDER BY total_ns DESC, name_id
        LIMIT 1
    ) AS copy
FROM found_gpu_time
HAVING 100 * sum(exposed_memcpy_ns) / sum(span_ns) >= 5;
