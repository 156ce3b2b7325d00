WITH chosen AS (FROM kernels WHERE trace = $trace),

found AS (FROM iterations('chosen'))

SELECT
    device,
    method,
    count(*) FILTER (iteration IS NOT NULL) AS iterations,
    count(*) FILTER (steady) AS steady,
    median(launches) FILTER (steady) AS launches,
    avg(total_ns) FILTER (steady) AS mean_total_ns,
    avg(span_ns) FILTER (steady) AS mean_span_ns,
    any_value(covered_pct) AS covered_pct,
    CASE
        WHEN method = 'annotation' THEN 'steps of the profiler'
        WHEN bool_or(steady IS NULL AND iteration IS NOT NULL) THEN 'may be the layers of one step: no totals'
        ELSE 'repeats in the sequence of kernels; may be layers where the trace holds one step'
    END AS remark
FROM found
GROUP BY device, method
ORDER BY device;
