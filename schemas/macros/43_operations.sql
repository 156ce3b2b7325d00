-- The rows of the view and of the macro operations, from sums per signature with the columns of `kernel_rollups`.
CREATE OR REPLACE MACRO _operations(sums) AS TABLE
SELECT
    trace,
    timing,
    category,
    operation,
    dtype,
    sum(n)::BIGINT AS n,
    try_cast(sum(total_ns) AS BIGINT) AS total_ns,
    sum(total_ns) / nullif(sum(timed), 0) AS mean_ns,
    min(min_ns) AS min_ns,
    max(max_ns) AS max_ns,
    100 * sum(total_ns) / nullif(sum(sum(total_ns)) OVER (PARTITION BY trace, timing), 0) AS share_pct
FROM query_table(sums)
GROUP BY trace, timing, category, operation, dtype
ORDER BY total_ns DESC, trace, timing, category, operation, dtype;

CREATE OR REPLACE MACRO operations(source) AS TABLE
WITH _summed AS (FROM launch_rollups(source))

FROM _operations('_summed');
