-- The rows of `pairs` (a relation as of `_diff_pairs`) with test, effect and p_value, that of the less certain one of two tests. `ranks` names a
-- relation as of `_mann_whitney`.
--
-- 1. Of the launches: Mann-Whitney. Without launches (reports that hold sums only) Welch's test takes its place. 2. Of the two recordings: launches
-- of one recording share their clock, addresses and neighbours, so that means differ from one recording to the next by more than the scatter
-- of launches suggests; `spread` has by how much, and where it is not known, the first decides. Holm's correction is for all rows compared, tested or not.
CREATE OR REPLACE MACRO _diff_tests(pairs, ranks, threshold) AS TABLE
WITH scored AS (
    SELECT
        p.*,
        r.effect,
        CASE WHEN r.z IS NOT NULL THEN 'Mann-Whitney' WHEN abs(p.own_change) > threshold THEN 'Welch' END AS test,
        coalesce(
            r.z,
            CASE WHEN r.row_key IS NULL AND abs(p.own_change) > threshold AND timed_before >= 2 AND timed_after >= 2 THEN
                abs(mean_after_ns / common_ratio - mean_before_ns) / nullif(
                    sqrt(
                        variance_before / (timed_before - 1) + variance_after / common_ratio ** 2 / (timed_after - 1)
                    ),
                    0
                )
            END
        ) AS z_of_launches,
        abs(p.own_change) / nullif(p.spread, 0) AS z_of_recordings,
        -- Not `least`: it passes over what is not known. Where no other kernel moved, this one did; where too few compare to tell how far
        -- recordings move, the launches decide.
        CASE
            WHEN z_of_launches < z_of_recordings OR coalesce(p.spread, 0) = 0 THEN z_of_launches
            WHEN z_of_recordings <= z_of_launches THEN z_of_recordings
        END AS z
    FROM query_table(pairs) AS p
    LEFT JOIN query_table(ranks) AS r USING (row_key)
),

tested AS (
    SELECT *, _two_sided_p(z) AS raw_p FROM scored
),

ordered AS (
    SELECT *, row_number() OVER (ORDER BY raw_p NULLS LAST, row_key) AS place FROM tested
)

SELECT
    *,
    CASE WHEN raw_p IS NOT NULL THEN
        least(1, max(raw_p * (compared - place + 1)) OVER (ORDER BY place ROWS UNBOUNDED PRECEDING))
    END AS p_value
FROM ordered;
