-- Where the launches of a row changed: per row_key, the places whose own means moved as that of the row did. `pairs` names a relation as of
-- `_diff_pairs`, `samples` one with row_key, place, side and value, without the common shift. A change in some places only, such as one of many layers,
-- is lost among the launches of the others; so each place is tested by itself, as `_diff_tests` tests rows. Rows whose places are not the same on both
-- sides, or are fewer than two, are not here.
--
-- p_value is that of the clearest place. Each row has an equal part of the error, which its places share, and half of it is that of the test of all
-- its launches (so Bonferroni's factor is 2 × places × rows); it is not below what the number of launches can show, as the normal approximation may be.
-- Of places that p_value does not tell, those with three or more launches on each side, the sides farther apart than each is wide, changed as far as
-- so few can tell (`is_too_few`). changed_in: "3 of 9 launches: MLP_2".
CREATE OR REPLACE MACRO _diff_places(pairs, samples, threshold) AS TABLE
WITH _keyed AS (
    SELECT {'row_key': row_key, 'place': place} AS row_key, side, value FROM query_table(samples) WHERE place IS NOT NULL
),

ranked AS (FROM _mann_whitney('_keyed')),

summed AS (
    SELECT
        row_key,
        place,
        (count(*) FILTER (side = 'before'))::DOUBLE AS a,
        (count(*) FILTER (side = 'after'))::DOUBLE AS b,
        avg(value) FILTER (side = 'after') / nullif(avg(value) FILTER (side = 'before'), 0) - 1 AS change,
        greatest(
            min(value) FILTER (side = 'after') - max(value) FILTER (side = 'before'), min(value) FILTER (side = 'before') - max(value) FILTER (side = 'after')
        ) AS gap,
        greatest(
            max(value) FILTER (side = 'after') - min(value) FILTER (side = 'after'), max(value) FILTER (side = 'before') - min(value) FILTER (side = 'before')
        ) AS width
    FROM query_table(samples)
    GROUP BY row_key, place
    QUALIFY bool_and(place IS NOT NULL AND a > 0 AND b > 0) OVER (PARTITION BY row_key) AND count(*) OVER (PARTITION BY row_key) > 1
),

judged AS (
    SELECT
        s.*,
        p.own_change,
        gap > width AND a >= 3 AND b >= 3 AND abs(change) >= 1.96 * coalesce(p.spread, 0) AS is_apart,
        2 * p.compared * count(*) OVER (PARTITION BY s.row_key) AS tests,
        2 * exp(lgamma(a + 1) + lgamma(b + 1) - lgamma(a + b + 1)) * tests AS least_p,
        CASE WHEN abs(change) < r.z * coalesce(p.spread, 0) THEN abs(change) / p.spread ELSE r.z END AS z,
        least(1, greatest(_two_sided_p(z) * tests, least_p)) AS p_value
    FROM summed AS s
    INNER JOIN query_table(pairs) AS p USING (row_key)
    LEFT JOIN ranked AS r ON s.row_key = r.row_key.row_key AND s.place = r.row_key.place
),

moved AS (
    SELECT *, min(p_value) OVER (PARTITION BY row_key) < 0.05 AS is_certain
    FROM judged
    WHERE abs(change) > threshold AND sign(change) = sign(own_change)
),

found AS (
    SELECT
        row_key,
        is_certain,
        min(p_value) AS p_value,
        sum(b)::BIGINT AS n,
        list(place ORDER BY p_value, abs(change) DESC, place) AS places
    FROM moved
    WHERE CASE WHEN is_certain THEN p_value < 0.05 ELSE is_apart AND least_p >= 0.05 END
    GROUP BY row_key, is_certain
)

SELECT
    row_key,
    p_value,
    NOT is_certain AS is_too_few,
    CASE WHEN n < all_n THEN
        format('{} of {} launches: {}', n, all_n, array_to_string(places[:3], ', '))
        || CASE WHEN length(places) > 3 THEN format(' and {} more', length(places) - 3) ELSE '' END
    END AS changed_in
FROM found
INNER JOIN (SELECT row_key, sum(b)::BIGINT AS all_n FROM summed GROUP BY row_key) AS w USING (row_key);
