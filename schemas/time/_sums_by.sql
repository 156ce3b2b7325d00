-- Launches and time per trace, timing and the columns that `keys` names with commas between: the sums of every overview. `sums` is a relation
-- with the columns of `kernel_rollups`. A total past 63 bits is NULL; mean, share and deviation are still right.
CREATE OR REPLACE MACRO _sums_by(sums, keys) AS TABLE
WITH _grouped AS (
    SELECT
        trace,
        timing,
        COLUMNS(lambda c: list_contains(string_split(replace(keys, ' ', ''), ','), c)),
        sum(n)::BIGINT AS n,
        sum(total_ns) AS sum_ns,
        sum(timed) AS timed,
        min(min_ns) AS min_ns,
        max(max_ns) AS max_ns,
        sum(sum_squares_ns2) AS squares
    FROM query_table(sums)
    GROUP BY ALL
)

SELECT
    * EXCLUDE (n, sum_ns, timed, min_ns, max_ns, squares),
    n,
    try_cast(sum_ns AS BIGINT) AS total_ns,
    sum_ns / nullif(timed, 0) AS mean_ns,
    min_ns,
    max_ns,
    CASE WHEN squares IS NOT NULL THEN sqrt(greatest(squares - sum_ns::DOUBLE * sum_ns / timed, 0) / nullif(timed - 1, 0)) END AS stddev_ns,
    100 * sum_ns / nullif(sum(sum_ns) OVER (PARTITION BY trace, timing), 0) AS share_pct
FROM _grouped;
