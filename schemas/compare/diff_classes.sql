-- What a rule of `bounds` says of the kernels of two sets of counters, a row per matched kernel, changed ones first.
--
-- Kernels match by signature, else by name. Of several launches, the most frequent verdict counts, among equally frequent ones the first by name.
--
-- Arguments:
--   before_name: name, run, label, or a pattern of one (`*` any text): the counters of all traces that it finds are one side.
--   after_name: the same for the other side.
--   rule_name: rule, as in `bound_rules`.
-- Columns:
--   kernel: as in diff
--   matched_by VARCHAR: signature, name, or the only side that has it.
--   n_before BIGINT: Profiled launches before.
--   n_after BIGINT: Profiled launches after.
--   verdict_before VARCHAR: Verdict before, as in bounds; unknown where the rule lacks a counter, NULL where only the other side has the kernel.
--   verdict_after VARCHAR: The same after.
--   change VARCHAR: same, changed, newly known, no longer known, only before or only after.
--   mean_before_ns DOUBLE [ns]: Mean duration under the profiler before.
--   mean_after_ns DOUBLE [ns]: Mean duration under the profiler after.
--   mean_delta_pct: as in diff
-- Example:
--   SELECT kernel, verdict_before, verdict_after, change FROM diff_classes('base', 'said', rule_name := 'sm_dram');
CREATE OR REPLACE MACRO diff_classes(before_name, after_name, rule_name := 'ncu') AS TABLE
WITH judged AS (
    SELECT m.row_key, m.matched_by, m.kernel, m.side, coalesce(b.verdict, 'unknown') AS verdict, b.duration_ns
    FROM bounds AS b
    INNER JOIN _profiled_matches(before_name, after_name) AS m ON b.trace_id = m.trace_id AND b.signature_id = m.signature_id
    WHERE b.rule = rule_name
),

paired AS (
    SELECT
        row_key,
        any_value(matched_by) AS matched_by,
        min(kernel) AS kernel,
        count(*) FILTER (side = 'before') AS n_before,
        count(*) FILTER (side = 'after') AS n_after,
        mode(verdict ORDER BY verdict) FILTER (side = 'before') AS verdict_before,
        mode(verdict ORDER BY verdict) FILTER (side = 'after') AS verdict_after,
        avg(duration_ns) FILTER (side = 'before') AS mean_before_ns,
        avg(duration_ns) FILTER (side = 'after') AS mean_after_ns
    FROM judged
    GROUP BY row_key
)

SELECT
    kernel,
    matched_by,
    n_before,
    n_after,
    verdict_before,
    verdict_after,
    CASE
        WHEN matched_by LIKE 'only%' THEN matched_by
        WHEN verdict_before = verdict_after THEN 'same'
        WHEN verdict_before = 'unknown' THEN 'newly known'
        WHEN verdict_after = 'unknown' THEN 'no longer known'
        ELSE 'changed'
    END AS change,
    mean_before_ns,
    mean_after_ns,
    100 * (mean_after_ns / nullif(mean_before_ns, 0) - 1) AS mean_delta_pct
FROM paired
ORDER BY change = 'same', greatest(coalesce(mean_before_ns, 0), coalesce(mean_after_ns, 0)) DESC, row_key;
