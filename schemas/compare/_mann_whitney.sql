-- Whether values of two sides differ, per `row_key`: `z` of the Mann-Whitney test, a normal approximation with correction for ties, and `effect`, the
-- probability that a value after is larger than one before (0.5: neither). `samples` names a relation with row_key, side (before, after) and value.
CREATE OR REPLACE MACRO _mann_whitney(samples) AS TABLE
WITH ranked AS (
    SELECT
        row_key,
        side,
        rank() OVER (PARTITION BY row_key ORDER BY value) AS first_rank,
        count(*) OVER (PARTITION BY row_key, value) AS ties
    FROM query_table(samples)
),

counted AS (
    SELECT
        row_key,
        (count(*) FILTER (side = 'before'))::DOUBLE AS a,
        (count(*) FILTER (side = 'after'))::DOUBLE AS b,
        sum(first_rank + (ties - 1) / 2.0) FILTER (side = 'after') AS rank_sum,
        sum(ties::DOUBLE * ties - 1) AS tie_term
    FROM ranked
    GROUP BY row_key
)

SELECT
    row_key,
    (rank_sum - b * (b + 1) / 2) / (a * b) AS effect,
    abs(rank_sum - b * (b + 1) / 2 - a * b / 2)
    / nullif(sqrt(a * b / 12 * ((a + b + 1) - tie_term / ((a + b) * (a + b - 1)))), 0) AS z
FROM counted
WHERE a > 0 AND b > 0 AND a + b > 2;
