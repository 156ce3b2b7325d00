-- What changed between two traces or sets of traces, a row per matched kernel, the largest change of time first.
--
-- Every signature of either side is in exactly one row, so the totals add up to those of the traces. Signatures match by id; what is left by the name
-- without what vendors and builds add (match_name), then by operator. Of launches that several traces of a run hold, those in `kernels` are compared;
-- a side that names no such trace is compared by what it has.
--
-- A row changed where its own shift, beyond the one that all kernels have in common (clocks, temperature), is over `threshold` and stays under 5 % in
-- two tests: of its launches, and of the two recordings, whose means differ by more than the spread of their launches explains (spread_pct). With fewer
-- than five kernels that spread is not known, and the launches alone decide. Where launches of a row come from several places (modules, else positions
-- in an iteration) that are the same on both sides, each place is tested too, and a place that changed as the row did makes the row changed.
--
-- Arguments:
--   before_trace: name, run, label, or a pattern of one (`*` any text): all traces that it finds are one side.
--   after_trace: the same for the other side.
--   source: what to compare: a relation with the columns of `kernels` or `all_launches`.
--   threshold: share that a mean may change by without counting as changed; 0.03 is 3 %.
-- Columns:
--   kernel: as in roofline
--   category, op: as in kernels
--   matched_by VARCHAR: signature, name, op, or the only side that has it.
--   n_before BIGINT: Launches before.
--   n_after BIGINT: Launches after.
--   total_before_ns BIGINT [ns]: Summed duration before.
--   total_after_ns BIGINT [ns]: Summed duration after.
--   delta_ns BIGINT [ns]: Change of the summed duration.
--   delta_pct DOUBLE [%]: The same in percent.
--   count_delta_ns BIGINT [ns]: What of the change is other numbers of launches: their difference × the mean before; all of it where one side has none.
--   mean_delta_ns BIGINT [ns]: The rest: launches after × the change of the mean.
--   mean_before_ns DOUBLE [ns]: Mean duration before.
--   mean_after_ns DOUBLE [ns]: Mean duration after.
--   mean_delta_pct DOUBLE [%]: Change of the mean.
--   common_shift_pct DOUBLE [%]: Median change of the means of all kernels that match by signature; NULL where fewer than five compare.
--   own_delta_pct DOUBLE [%]: Change of the mean beyond the common shift.
--   spread_pct DOUBLE [%]: What means of kernels of this length move from one recording to the next, read off all kernels; NULL with fewer than five.
--   test VARCHAR: Test of the launches: Mann-Whitney, that of the launches of one place (Mann-Whitney by place), or Welch where only sums are known.
--   p_value DOUBLE: p-value of the less certain of the two tests, corrected for all rows compared, and by place for all places.
--   effect DOUBLE: Probability that a launch after lasts longer than one before, without the common shift (0.5: neither).
--   verdict VARCHAR: slower, faster, unchanged, noise (over the threshold but within chance), too few (too few launches to tell), no times, only
--     before, only after.
--   changed_in VARCHAR: The launches after that changed, where those at other places of the program did not: how many, and in which modules or at which
--     position among the launches of the row in an iteration; NULL where the places are not known, or none differs from the others.
--   kernel_before VARCHAR: Short name before.
--   kernel_after VARCHAR: Short name after.
--   signature_before VARCHAR: Signature before with the most time.
--   signature_after VARCHAR: Signature after with the most time.
-- Example:
--   SELECT kernel, n_before, n_after, delta_ns, verdict FROM diff('first-rank0', 'second-*');
CREATE OR REPLACE MACRO diff(before_trace, after_trace, source := 'all_launches', threshold := 0.03) AS TABLE
WITH _sums AS (FROM _diff_sums(source)),

_sides AS (FROM _diff_sides('_sums', before_trace, after_trace)),

_members AS (FROM _diff_kernels('_sides')),

_pairs AS (FROM _diff_pairs('_members', threshold)),

_launches AS (
    SELECT trace, device, signature_id, start_ns, launch_index, duration_ns, is_primary, module, iteration
    FROM (FROM query_table(source) UNION ALL BY NAME SELECT NULL::BOOLEAN AS is_primary WHERE false)
    WHERE timing = 'timeline' AND duration_ns IS NOT NULL
),

-- The launches of the rows that may have changed, each with its place in the program.
_samples AS (
    SELECT
        m.row_key,
        m.side,
        l.duration_ns / CASE WHEN m.side = 'after' THEN p.common_ratio ELSE 1 END AS value,
        CASE
            WHEN l.module IS NOT NULL THEN l.module
            WHEN l.iteration IS NOT NULL THEN
                'number ' || row_number() OVER (
                    PARTITION BY m.row_key, m.side, l.trace, l.device, l.iteration, l.module IS NULL ORDER BY l.start_ns, l.launch_index
                ) || ' of an iteration'
        END AS place
    FROM _launches AS l
    INNER JOIN (SELECT side, trace, bool_and(is_stand_in) AS is_stand_in FROM _sides WHERE origin = 'launches' GROUP BY side, trace) AS t
        ON l.trace = t.trace AND (coalesce(l.is_primary, true) OR t.is_stand_in)
    INNER JOIN _members AS m ON l.signature_id = m.signature_id AND t.side = m.side
    INNER JOIN _pairs AS p USING (row_key)
    WHERE abs(p.own_change) > threshold
),

_ranks AS (FROM _mann_whitney('_samples')),

_tested AS (FROM _diff_tests('_pairs', '_ranks', threshold)),

_places AS (FROM _diff_places('_pairs', '_samples', threshold)),

_located AS (
    SELECT
        t.* EXCLUDE (test, p_value),
        CASE WHEN t.p_value >= 0.05 AND w.p_value < 0.05 THEN 'Mann-Whitney by place' ELSE t.test END AS test,
        CASE WHEN t.p_value >= 0.05 AND w.p_value < 0.05 THEN w.p_value ELSE t.p_value END AS p_value,
        w.is_too_few OR (
            -- All launches lie apart, and of so few that is no proof.
            effect IN (0, 1) AND timed_before >= 3 AND timed_after >= 3 AND abs(own_change) >= 1.96 * coalesce(spread, 0)
            AND 2 * exp(lgamma(timed_before + 1) + lgamma(timed_after + 1) - lgamma(timed_before + timed_after + 1)) * compared >= 0.05
        ) AS is_too_few,
        w.changed_in
    FROM _tested AS t
    LEFT JOIN _places AS w USING (row_key)
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
    CASE
        WHEN matched_by LIKE 'only%' THEN total_after_ns - total_before_ns
        ELSE round((n_after - n_before) * mean_before_ns)::BIGINT
    END AS count_delta_ns,
    total_after_ns - total_before_ns - count_delta_ns AS mean_delta_ns,
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
        WHEN p_value IS NULL OR (p_value >= 0.05 AND is_too_few) THEN 'too few'
        WHEN p_value >= 0.05 THEN 'noise'
        WHEN own_change > 0 THEN 'slower'
        ELSE 'faster'
    END AS verdict,
    changed_in,
    kernel_before,
    kernel_after,
    signature_before,
    signature_after
FROM _located
ORDER BY abs(total_after_ns - total_before_ns) DESC, row_key;
