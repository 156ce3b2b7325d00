-- The rows of `diff` before they are judged: sums of both sides, the ratio of their means, and what moves means. `members` names a relation as of
-- `_diff_kernels`.
--
-- common_ratio, found_shift: the shift of all kernels (clocks, temperature) is the median of the ratios of means; found_shift is NULL with fewer than
-- five ratios. own_change: what a row has beyond it. spread: how far means move from one recording to the next, as a share, read off the other
-- kernels: the median of what they moved (times 1.4826: a standard deviation), in percent over all, and in ns over the shorter half, where the timer
-- is most of it. Beyond `threshold` and 100 ns it is not spread: then the programs differ. compared: rows with a ratio.
CREATE OR REPLACE MACRO _diff_pairs(members, threshold) AS TABLE
WITH paired AS (
    SELECT
        row_key,
        any_value(matched_by) AS matched_by,
        arg_max(short_name, (total_ns, signature_id)) FILTER (side = 'before' AND total_ns IS NOT NULL) AS kernel_before,
        arg_max(short_name, (total_ns, signature_id)) FILTER (side = 'after' AND total_ns IS NOT NULL) AS kernel_after,
        arg_max(category, (total_ns, signature_id)) FILTER (total_ns IS NOT NULL) AS category,
        arg_max(op || coalesce(' (' || inferred_by || ')', ''), (total_ns, signature_id, side)) FILTER (total_ns IS NOT NULL) AS op,
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
    FROM query_table(members)
    GROUP BY row_key
),

averaged AS (
    SELECT
        *,
        total_before_ns / timed_before AS mean_before_ns,
        total_after_ns / timed_after AS mean_after_ns,
        (total_after_ns / timed_after) / nullif(total_before_ns / timed_before, 0) AS ratio,
        CASE WHEN squares_before IS NOT NULL THEN greatest(squares_before / timed_before - (total_before_ns / timed_before) ** 2, 0) END AS variance_before,
        CASE WHEN squares_after IS NOT NULL THEN greatest(squares_after / timed_after - (total_after_ns / timed_after) ** 2, 0) END AS variance_after
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
)

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
FROM moved;
