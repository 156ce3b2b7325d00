-- The sums (`sums` names a relation as of `_diff_sums`) that `diff` compares, each with its `side`, before or after: what `_traces_named` finds.
-- Each side is judged by itself: launches that a trace shares with others count where these are not on its side, and where a side names no trace
-- whose launches are primary, those of the best of its prints are compared (`is_stand_in`).
CREATE OR REPLACE MACRO _diff_sides(sums, before_trace, after_trace) AS TABLE
WITH named_sides AS (
    SELECT 'before' AS side, trace, run AS work FROM _traces_named(before_trace)
    UNION ALL
    SELECT 'after' AS side, trace, run AS work FROM _traces_named(after_trace)
),

sharing AS (
    SELECT n.side, n.trace, bool_and(o.trace IS NULL) AS stands_alone
    FROM named_sides AS n
    INNER JOIN (SELECT name AS trace, unnest(repeats) AS other_id FROM traces) AS t USING (trace)
    LEFT JOIN traces AS other ON t.other_id = other.trace_id
    LEFT JOIN named_sides AS o ON other.name = o.trace AND n.side = o.side
    GROUP BY n.side, n.trace
),

graded AS (
    SELECT
        * EXCLUDE (is_primary, stands_alone),
        coalesce(stands_alone, false) AND origin = 'launches' AS stands_alone,
        (coalesce(is_primary, true) OR coalesce(stands_alone AND origin = 'launches', false)) AND timing <> 'profiled' AS is_first_choice,
        kind = 'kernel' AS of_kernels,
        timing <> 'profiled' AND origin <> 'report_phase' AS eligible,
        (CASE origin WHEN 'launches' THEN 0 WHEN 'report_grid' THEN 1 ELSE 2 END, trace) AS place
    FROM query_table(sums)
    INNER JOIN named_sides USING (trace)
    LEFT JOIN sharing USING (side, trace)
),

chosen AS (
    SELECT
        *,
        NOT is_first_choice OR stands_alone AS is_stand_in
    FROM graded
    WINDOW same AS (PARTITION BY side, work, of_kernels)
    QUALIFY is_first_choice OR (eligible AND NOT bool_or(is_first_choice) OVER same AND place = min(place) FILTER (eligible) OVER same)
)

SELECT side, trace, signature_id, name_id, short_name, category, op, inferred_by, origin, n, timed, total_ns, sum_squares_ns2, is_stand_in
FROM chosen;
