-- The launches of a relation with the columns of `kernels`, each with the figures of a row of `kernel_rollups`: the sums of one launch.
CREATE OR REPLACE MACRO _as_rollups(relation) AS TABLE
SELECT
    *,
    'launches' AS origin,
    1 AS n,
    CASE WHEN duration_ns IS NULL THEN 0 ELSE 1 END AS timed,
    duration_ns AS total_ns,
    duration_ns AS min_ns,
    duration_ns AS max_ns
FROM query_table(relation);
