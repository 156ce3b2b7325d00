CREATE OR REPLACE MACRO operations(source) AS TABLE
SELECT
    trace,
    category,
    operation,
    dtype,
    count(*) AS n,
    sum(duration_ns)::BIGINT AS total_ns,
    avg(duration_ns) AS mean_ns,
    min(duration_ns) AS min_ns,
    max(duration_ns) AS max_ns,
    100 * sum(duration_ns) / nullif(sum(sum(duration_ns)) OVER (PARTITION BY trace), 0) AS share_pct
FROM query_table(source)
WHERE timing = 'timeline'
GROUP BY trace, category, operation, dtype
ORDER BY total_ns DESC, trace, category, operation, dtype;
