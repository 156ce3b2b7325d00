-- What changed from one side to the other, kernel by kernel, largest change first; the rows add up to the totals of both sides.
SELECT
    kernel, verdict, changed_in, matched_by, n_before, n_after, total_before_ns, total_after_ns, delta_ns, delta_pct, count_delta_ns, mean_delta_ns,
    own_delta_pct, p_value, common_shift_pct
FROM diff($before, $after, threshold := $threshold);
