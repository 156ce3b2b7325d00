-- How many rows of a timeline show a whole trace where events shorter than $step_ns are summed (see `report_events_launches`).
WITH _ids AS (
    SELECT trace_id FROM traces WHERE name = $trace
),

_found AS (
    SELECT device::VARCHAR AS process, coalesce(2 * stream, 2 * queue + 1)::VARCHAR AS thread, 0 AS lane, start_ns, end_ns - start_ns AS duration_ns
    FROM launches
    WHERE trace_id IN (FROM _ids) AND timing = 'timeline' AND end_ns >= start_ns
    UNION ALL
    SELECT process, thread, CASE WHEN kind = 'python_function' THEN 1 ELSE 2 END, start_ns, duration_ns
    FROM ranges
    WHERE trace_id IN (FROM _ids) AND device IS NULL AND kind NOT IN ('gpu_user_annotation', 'Trace')
    UNION ALL
    SELECT process, thread, 3, start_ns, duration_ns FROM ops WHERE trace_id IN (FROM _ids)
    UNION ALL
    SELECT process, thread, 4, start_ns, duration_ns FROM api_calls WHERE trace_id IN (FROM _ids)
),

_binned AS (
    SELECT count(*) FILTER (duration_ns >= $step_ns) + max(CASE WHEN duration_ns < $step_ns THEN 1 ELSE 0 END) AS n
    FROM _found
    WHERE duration_ns >= 0
    GROUP BY process, thread, lane, start_ns // $step_ns
)

SELECT sum(n)::BIGINT AS n FROM _binned;
