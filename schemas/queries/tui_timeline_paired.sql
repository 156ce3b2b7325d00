-- The bins of a stretch of the common axis (see `_timeline_bins`): launches of `activities` are summed by the pair of bins of $step_ns in which they
-- begin and end, per lane and category, before they are spread over bins. `placed` says where the traces lie on the axis. $whole says that nothing
-- reaches out of the stretch, so that nothing has to be cut off; $several, that processes are kept apart.
-- Sums are wider than 64 bits: a damaged clock places launches years apart.
-- A lane is twice the stream, or twice the queue and one: a number is grouped faster than two that may be NULL.
WITH placed AS (
    SELECT
        unnest($traces::VARCHAR[]) AS trace_id,
        unnest($shifts::BIGINT[]) AS shift_ns,
        unnest($numbers::USMALLINT[]) AS number
),

cut AS (
    SELECT
        p.number,
        CASE WHEN $several THEN a.process END AS process,
        a.device,
        coalesce(2 * a.stream, 2 * a.queue + 1) AS lane,
        a.category,
        CASE
            WHEN $whole THEN a.start_ns + p.shift_ns - $first_ns
            ELSE greatest(a.start_ns + p.shift_ns - $first_ns, 0)
        END AS begins,
        CASE
            WHEN $whole THEN a.end_ns + p.shift_ns - $first_ns
            ELSE least(a.end_ns + p.shift_ns - $first_ns, $last_ns - $first_ns)
        END AS ends
    FROM activities AS a
    INNER JOIN placed AS p USING (trace_id)
    WHERE
        a.timing = 'timeline'
        AND a.start_ns < $highest_ns
        AND a.end_ns >= $lowest_ns
        AND ($whole OR (a.start_ns + p.shift_ns < $last_ns AND a.end_ns + p.shift_ns >= $first_ns))
),

paired AS (
    SELECT
        number,
        process,
        device,
        lane,
        category,
        begins // $step_ns AS first_bin,
        (ends - 1) // $step_ns AS last_bin,
        count(*)::HUGEINT AS n,
        sum(begins) AS begins,
        sum(ends) AS ends
    FROM cut
    GROUP BY ALL
)

FROM _timeline_bins('paired', $step_ns);
