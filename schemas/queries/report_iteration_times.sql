SELECT
    iteration::VARCHAR AS iteration,
    device,
    any_value(steady_state) AS steady_state,
    count(*) AS launches,
    try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
    max(end_ns) - min(start_ns) AS span_ns,
    sum(duration_ns) / 1e6 AS total_ms
FROM kernels
WHERE trace = $trace AND iteration IS NOT NULL AND timing = 'timeline' AND start_ns IS NOT NULL
GROUP BY device, kernels.iteration
ORDER BY device, kernels.iteration
LIMIT 200;
