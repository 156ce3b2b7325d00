-- By the columns of `kernels`, which were written at ingest; the macro `iterations` finds the same anew.
WITH each AS (
    SELECT
        device,
        iteration,
        any_value(steady_state) AS steady_state,
        count(*) AS launches,
        count(*) FILTER (kind = 'kernel') AS kernels,
        sum(duration_ns) AS total_ns,
        max(end_ns) - min(start_ns) AS span_ns
    FROM kernels
    WHERE trace = $trace AND timing = 'timeline' AND start_ns IS NOT NULL
    GROUP BY device, iteration
),

stepped AS (
    SELECT trace_id FROM ranges WHERE name LIKE 'ProfilerStep#%'
    UNION
    SELECT trace_id FROM ops WHERE name LIKE 'ProfilerStep#%'
)

SELECT
    device,
    CASE WHEN (SELECT trace_id FROM traces WHERE name = $trace) IN (SELECT trace_id FROM stepped) THEN 'steps of the profiler' ELSE 'repeats' END
        AS inferred_by,
    count(iteration) AS iterations,
    count(*) FILTER (steady_state) AS steady_state,
    median(launches) FILTER (steady_state) AS launches,
    avg(total_ns) FILTER (steady_state) AS mean_total_ns,
    avg(span_ns) FILTER (steady_state) AS mean_span_ns,
    100 * sum(kernels) FILTER (iteration IS NOT NULL) / sum(kernels) AS covered_pct,
    CASE WHEN bool_or(steady_state IS NULL AND iteration IS NOT NULL) THEN 'perhaps the layers of one step' END AS remark
FROM each
GROUP BY device
HAVING count(iteration) > 0
ORDER BY device;
