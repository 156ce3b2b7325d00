-- What threads of the host did in a stretch of the axis: events of at least $least_ns as they are, at most $most of them, the longest; shorter ones summed by
-- the bin of $step_ns in which they begin (no name), where $sums. `id` is the number of the event among those of its kind.
WITH placed AS (
    SELECT
        unnest($traces::VARCHAR[]) AS trace_id,
        unnest($shifts::BIGINT[]) AS shift_ns,
        unnest($numbers::USMALLINT[]) AS number
),

found AS NOT MATERIALIZED (
    SELECT
        trace_id,
        CASE WHEN kind = 'python_function' THEN 'Python' ELSE 'annotations' END AS kind,
        process,
        thread,
        name,
        start_ns,
        duration_ns,
        range_id AS id
    FROM ranges
    WHERE device IS NULL AND kind NOT IN ('gpu_user_annotation', 'Trace')
    UNION ALL
    SELECT trace_id, 'operators', process, thread, name, start_ns, duration_ns, op_id FROM ops
    UNION ALL
    SELECT trace_id, 'API calls', process, thread, name, start_ns, duration_ns, api_index FROM api_calls
),

cut AS NOT MATERIALIZED (
    SELECT
        p.number,
        f.kind,
        f.process,
        f.thread,
        f.name,
        f.start_ns + p.shift_ns AS begins,
        f.start_ns + p.shift_ns + f.duration_ns AS ends,
        f.duration_ns,
        f.id
    FROM found AS f
    INNER JOIN placed AS p USING (trace_id)
    WHERE
        f.start_ns < $highest_ns
        AND f.start_ns + f.duration_ns >= $lowest_ns
        AND f.start_ns + p.shift_ns < $last_ns
        AND f.start_ns + p.shift_ns + f.duration_ns >= $first_ns
)

SELECT
    number,
    kind,
    process,
    thread,
    NULL AS name,
    $first_ns + bin * $step_ns AS begins,
    $first_ns + bin * $step_ns + busy_ns AS ends,
    n,
    NULL AS id
FROM (
    SELECT
        number,
        kind,
        process,
        thread,
        greatest(begins - $first_ns, 0) // $step_ns AS bin,
        sum(duration_ns)::BIGINT AS busy_ns,
        count(*) AS n
    FROM cut
    WHERE $sums AND duration_ns < $least_ns
    GROUP BY ALL
)
UNION ALL
(
    SELECT number, kind, process, thread, name, begins, ends, 1, id
    FROM cut
    WHERE duration_ns >= $least_ns
    ORDER BY duration_ns DESC, number, begins, id
    LIMIT $most
);
