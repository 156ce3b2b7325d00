WITH chosen AS (FROM kernels WHERE trace = $trace)

SELECT iteration::VARCHAR AS iteration, device, label, steady, launches, total_ns, span_ns, total_ns / 1e6 AS total_ms
FROM iterations('chosen')
WHERE iteration IS NOT NULL
ORDER BY device, iterations.iteration
LIMIT 200;
