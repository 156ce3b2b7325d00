-- Bins of $step_ns from $first_ns to $last_ns of the common axis: per lane and bin the time that launches ran, the category that ran
-- longest, and the launches, each counted in the first bin that shows it. `placed` says where the traces lie on the axis. One pass:
-- launches that go from one bin to another are summed by that pair, and only the few sums are spread over the bins between.
-- $whole says that nothing reaches out of the stretch, so that nothing has to be cut off.
-- Rows without a bin are the sums of categories over all lanes. A lane is twice the stream, or twice the queue and one: a number is grouped faster than two that may be NULL.
WITH placed AS (
    SELECT
        unnest($traces::VARCHAR[]) AS trace_id,
        unnest($shifts::BIGINT[]) AS shift_ns,
        unnest(range(len($traces::VARCHAR[])))::USMALLINT AS number
),

cut AS (
    SELECT
        p.number,
        a.process,
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
        count(*) AS n,
        sum(begins)::BIGINT AS begins,
        sum(ends)::BIGINT AS ends
    FROM cut
    GROUP BY ALL
),

shared AS (
    SELECT
        * EXCLUDE (n),
        CASE WHEN bin = first_bin THEN n ELSE 0 END AS n,
        CASE
            WHEN first_bin = last_bin THEN ends - begins
            WHEN bin = first_bin THEN n * (bin + 1) * $step_ns - begins
            WHEN bin = last_bin THEN ends - n * bin * $step_ns
            ELSE n * $step_ns
        END AS busy_ns
    FROM (
        SELECT
            * EXCLUDE (last_bin),
            greatest(first_bin, last_bin) AS last_bin,
            unnest(range(first_bin, greatest(first_bin, last_bin) + 1)) AS bin
        FROM paired
    )
),

summed AS (
    SELECT number, process, device, lane, bin, category, sum(busy_ns) AS busy_ns, sum(n) AS n
    FROM shared
    GROUP BY ALL
)

SELECT
    number,
    process,
    device,
    lane,
    bin,
    sum(busy_ns)::BIGINT AS busy_ns,
    CASE WHEN grouping(bin) = 1 THEN category ELSE arg_max(category, (busy_ns, category)) END AS category,
    sum(n)::BIGINT AS n
FROM summed
GROUP BY GROUPING SETS ((number, process, device, lane, bin), (category))
ORDER BY number, process, device, lane, bin, busy_ns DESC;
