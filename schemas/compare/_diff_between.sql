-- What changed from one trace to another, or from some to others: each side is what `_traces_named` finds. `summed` names a relation with the columns
-- of `all_rollups`, `single` one with those of `all_launches`; without `is_primary`, all their rows are compared. Every signature of either side is
-- in exactly one row, so the totals add up to those of the traces.
--
-- Signatures match by id; what is left by match_name, then by operator, so that traces of different vendors meet too. The shift that is common to all
-- (clocks, temperature) is the median of the ratios of means; what a row has beyond it is its own. A row changed where its own shift is over
-- `threshold` (0.03: 3 %) and stays under 5 % in two tests, after Holm's correction for all rows compared; `p_value` is that of the less certain one.
-- 1. Of its launches: Mann-Whitney, normal approximation with correction for ties. Without launches (reports that hold sums only) Welch's test takes
-- its place. 2. Of the two recordings (`spread_pct`): launches of one recording share their clock, addresses and neighbours, so that means differ
-- from one recording to the next by more than their launches tell. How much is read off the other kernels: the median of what they moved (times
-- 1.4826: a standard deviation), in percent over all, and in ns over the shorter half, where the timer is most of it. More than `threshold` and 100
-- ns is no spread: then the programs differ. erfc: Chebyshev fit, relative error under 1.2e-7 (Press et al., Numerical Recipes, 6.2).
CREATE OR REPLACE MACRO _diff_between(summed, single, before_trace, after_trace, threshold := 0.03) AS TABLE
WITH named_sides AS (
    SELECT 'before' AS side, trace, run AS work FROM _traces_named(before_trace)
    UNION ALL
    SELECT 'after' AS side, trace, run AS work FROM _traces_named(after_trace)
),

graded AS (
    SELECT
        * EXCLUDE (is_primary),
        coalesce(is_primary, true) AND timing <> 'profiled' AS counted_anywhere,
        kind = 'kernel' AS of_kernels,
        timing <> 'profiled' AND origin <> 'report_phase' AS eligible,
        (CASE origin WHEN 'launches' THEN 0 WHEN 'report_grid' THEN 1 ELSE 2 END, trace) AS place
    FROM (
        FROM query_table(summed)
        UNION ALL BY NAME
        SELECT NULL::BOOLEAN AS is_primary WHERE false
    )
    INNER JOIN named_sides USING (trace)
),

-- Each side is judged by itself: where it names no trace whose launches are primary, those of the best of its prints are compared.
counting AS (
    SELECT
        *,
        counted_anywhere
        OR (eligible AND NOT bool_or(counted_anywhere) OVER same AND place = min(place) FILTER (eligible) OVER same) AS counted
    FROM graded
    WINDOW same AS (PARTITION BY side, work, of_kernels)
),

sides AS (
    SELECT
        side,
        signature_id,
        any_value(name_id) AS name_id,
        any_value(short_name) AS short_name,
        any_value(category) AS category,
        -- Calls found for launches of one signature may differ.
        coalesce(any_value(op) FILTER (found_by IS NULL), CASE WHEN min(op) = max(op) THEN min(op) END) AS op,
        CASE WHEN bool_or(op IS NOT NULL AND found_by IS NULL) IS NOT TRUE THEN min(found_by) END AS found_by,
        sum(n)::BIGINT AS n,
        sum(timed)::BIGINT AS timed,
        try_cast(sum(total_ns) AS BIGINT) AS total_ns,
        sum(sum_squares_ns2) AS sum_squares
    FROM counting
    WHERE counted
    GROUP BY side, signature_id
),

named AS (
    SELECT sides.*, coalesce(kernel_names.match_name, kernel_names.name) AS match_name, coalesce(kernel_names.kind, 'kernel') AS kind
    FROM sides
    LEFT JOIN kernel_names USING (name_id)
),

by_signature AS (
    SELECT *, count(*) OVER (PARTITION BY signature_id) = 2 AS matched FROM named
),

by_name AS (
    SELECT
        *,
        NOT matched AND min(side) OVER same_name <> max(side) OVER same_name AS name_matched
    FROM by_signature
    WINDOW same_name AS (PARTITION BY matched, match_name)
),

keyed AS (
    SELECT
        *,
        CASE
            WHEN matched THEN 'signature'
            WHEN name_matched THEN 'name'
            WHEN op IS NOT NULL AND min(side) OVER same_op <> max(side) OVER same_op THEN 'op'
            ELSE 'only ' || side
        END AS matched_by
    FROM by_name
    WINDOW same_op AS (PARTITION BY matched OR name_matched, op, kind)
),

members AS (
    SELECT
        *,
        matched_by || ':' || CASE
            WHEN matched_by = 'op' THEN op || ' ' || kind
            WHEN matched_by = 'name' THEN match_name
            ELSE signature_id
        END AS row_key
    FROM keyed
),

paired AS (
    SELECT
        row_key,
        any_value(matched_by) AS matched_by,
        arg_max(short_name, (total_ns, signature_id)) FILTER (side = 'before' AND total_ns IS NOT NULL) AS kernel_before,
        arg_max(short_name, (total_ns, signature_id)) FILTER (side = 'after' AND total_ns IS NOT NULL) AS kernel_after,
        arg_max(category, (total_ns, signature_id)) FILTER (total_ns IS NOT NULL) AS category,
        arg_max(op || coalesce(' (' || found_by || ')', ''), (total_ns, signature_id, side)) FILTER (total_ns IS NOT NULL) AS op,
        coalesce(sum(n) FILTER (side = 'before'), 0)::BIGINT AS n_before,
        coalesce(sum(n) FILTER (side = 'after'), 0)::BIGINT AS n_after,
        try_cast(coalesce(sum(total_ns) FILTER (side = 'before'), 0) AS BIGINT) AS total_before_ns,
        try_cast(coalesce(sum(total_ns) FILTER (side = 'after'), 0) AS BIGINT) AS total_after_ns,
        nullif(sum(timed) FILTER (side = 'before'), 0) AS timed_before,
        nullif(sum(timed) FILTER (side = 'after'), 0) AS timed_after,
        sum(sum_squares) FILTER (side = 'before') AS squares_before,
        sum(sum_squares) FILTER (side = 'after') AS squares_after,
        arg_max(signature_id, (total_ns, signature_id)) FILTER (side = 'before' AND total_ns IS NOT NULL) AS signature_before,
        arg_max(signature_id, (total_ns, signature_id)) FILTER (side = 'after' AND total_ns IS NOT NULL) AS signature_after
    FROM members
    GROUP BY row_key
),

averaged AS (
    SELECT
        *,
        total_before_ns / timed_before AS mean_before_ns,
        total_after_ns / timed_after AS mean_after_ns,
        (total_after_ns / timed_after) / nullif(total_before_ns / timed_before, 0) AS ratio,
        greatest(squares_before / timed_before - (total_before_ns / timed_before) ** 2, 0) AS variance_before,
        greatest(squares_after / timed_after - (total_after_ns / timed_after) ** 2, 0) AS variance_after
    FROM paired
),

shifted AS (
    SELECT
        *,
        count(ratio) OVER () AS compared,
        CASE WHEN count(ratio) OVER () >= 5 THEN median(ratio) FILTER (matched_by = 'signature') OVER () END AS found_shift
    FROM averaged
),

moved AS (
    SELECT
        *,
        coalesce(found_shift, 1) AS common_ratio,
        ratio / coalesce(found_shift, 1) - 1 AS own_change,
        mean_before_ns <= median(mean_before_ns) FILTER (matched_by = 'signature' AND ratio IS NOT NULL) OVER () AS is_short
    FROM shifted
),

own AS (
    SELECT
        *,
        CASE WHEN found_shift IS NOT NULL THEN
            sqrt(
                least(1.4826 * median(abs(own_change)) FILTER (matched_by = 'signature') OVER (), threshold) ** 2
                + (
                    least(1.4826 * median(abs(own_change) * mean_before_ns) FILTER (matched_by = 'signature' AND is_short) OVER (), 100)
                    / mean_before_ns
                ) ** 2
            )
        END AS spread
    FROM moved
),

singles AS (
    SELECT trace, signature_id, timing, duration_ns, is_primary
    FROM (FROM query_table(single) UNION ALL BY NAME SELECT NULL::BOOLEAN AS is_primary WHERE false)
),

ranked AS (
    SELECT
        m.row_key,
        m.side,
        k.duration_ns,
        rank() OVER (PARTITION BY m.row_key ORDER BY k.duration_ns / CASE WHEN m.side = 'after' THEN o.common_ratio ELSE 1 END)
            AS first_rank,
        count(*) OVER (
            PARTITION BY m.row_key, k.duration_ns / CASE WHEN m.side = 'after' THEN o.common_ratio ELSE 1 END
        ) AS ties
    FROM singles AS k
    INNER JOIN (
        SELECT side, trace, bool_or(counted_anywhere) AS is_primary FROM counting WHERE counted AND origin = 'launches' GROUP BY side, trace
    ) AS t ON k.trace = t.trace AND (coalesce(k.is_primary, true) OR NOT t.is_primary)
    INNER JOIN members AS m ON k.signature_id = m.signature_id AND t.side = m.side
    INNER JOIN own AS o USING (row_key)
    WHERE k.timing = 'timeline' AND k.duration_ns IS NOT NULL AND abs(o.own_change) > threshold
),

counted_ranks AS (
    SELECT
        row_key,
        (count(*) FILTER (side = 'before'))::DOUBLE AS a,
        (count(*) FILTER (side = 'after'))::DOUBLE AS b,
        sum(first_rank + (ties - 1) / 2.0) FILTER (side = 'after') AS rank_sum,
        sum(ties::DOUBLE * ties - 1) AS tie_term
    FROM ranked
    GROUP BY row_key
),

mann_whitney AS (
    SELECT
        row_key,
        (rank_sum - b * (b + 1) / 2) / (a * b) AS effect,
        abs(rank_sum - b * (b + 1) / 2 - a * b / 2)
        / nullif(sqrt(a * b / 12 * ((a + b + 1) - tie_term / ((a + b) * (a + b - 1)))), 0) AS z
    FROM counted_ranks
    WHERE a > 0 AND b > 0 AND a + b > 2
),

scored AS (
    SELECT
        own.*,
        mann_whitney.effect,
        CASE WHEN mann_whitney.z IS NOT NULL THEN 'Mann-Whitney' WHEN abs(own.own_change) > threshold THEN 'Welch' END AS test,
        coalesce(
            mann_whitney.z,
            CASE WHEN mann_whitney.row_key IS NULL AND abs(own.own_change) > threshold AND least(timed_before, timed_after) >= 2 THEN
                abs(mean_after_ns / common_ratio - mean_before_ns) / nullif(
                    sqrt(
                        variance_before / (timed_before - 1) + variance_after / common_ratio ** 2 / (timed_after - 1)
                    ),
                    0
                )
            END
        ) AS z_of_launches,
        abs(own.own_change) / nullif(own.spread, 0) AS z_of_recordings,
        CASE WHEN z_of_launches IS NOT NULL THEN least(z_of_launches, z_of_recordings) END AS z
    FROM own
    LEFT JOIN mann_whitney USING (row_key)
),

probable AS (
    SELECT
        *,
        CASE WHEN z IS NOT NULL THEN 1 / (1 + z / sqrt(2) / 2) END AS t
    FROM scored
),

tested AS (
    SELECT
        * EXCLUDE (t),
        t * exp(
            -z * z / 2 - 1.26551223 + t * (
                1.00002368 + t * (
                    0.37409196 + t * (
                        0.09678418 + t * (
                            -0.18628806 + t * (
                                0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277)))
                            )
                        )
                    )
                )
            )
        ) AS raw_p
    FROM probable
),

corrected AS (
    SELECT
        *,
        CASE WHEN raw_p IS NOT NULL THEN
            least(1, max(raw_p * (compared - place + 1)) OVER (ORDER BY place ROWS UNBOUNDED PRECEDING))
        END AS p_value
    FROM (SELECT *, row_number() OVER (ORDER BY raw_p NULLS LAST, row_key) AS place FROM tested)
)

SELECT
    coalesce(kernel_after, kernel_before) AS kernel,
    category,
    op,
    matched_by,
    n_before,
    n_after,
    total_before_ns,
    total_after_ns,
    total_after_ns - total_before_ns AS delta_ns,
    100::DOUBLE * (total_after_ns - total_before_ns) / nullif(total_before_ns, 0) AS delta_pct,
    mean_before_ns,
    mean_after_ns,
    100 * (ratio - 1) AS mean_delta_pct,
    100 * (found_shift - 1) AS common_shift_pct,
    100 * own_change AS own_delta_pct,
    100 * spread AS spread_pct,
    CASE WHEN p_value IS NOT NULL THEN test END AS test,
    p_value,
    effect,
    CASE
        WHEN matched_by LIKE 'only%' THEN matched_by
        WHEN ratio IS NULL THEN 'no times'
        WHEN abs(own_change) <= threshold THEN 'unchanged'
        WHEN p_value IS NULL THEN 'too few'
        WHEN p_value >= 0.05 THEN 'noise'
        WHEN own_change > 0 THEN 'slower'
        ELSE 'faster'
    END AS verdict,
    kernel_before,
    kernel_after,
    signature_before,
    signature_after
FROM corrected
ORDER BY abs(total_after_ns - total_before_ns) DESC, row_key;
