-- The longest times without a launch on a device, in a range of the axis, whatever their cause.
WITH placed AS (
    SELECT
        unnest($traces::VARCHAR[]) AS trace_id,
        unnest($shifts::BIGINT[]) AS shift_ns,
        unnest($numbers::USMALLINT[]) AS number
),

held AS (
    SELECT
        p.number,
        l.device,
        p.shift_ns,
        l.start_ns AS ends,
        max(l.end_ns) OVER (
            PARTITION BY l.trace_id, l.device ORDER BY l.start_ns, l.end_ns, l.launch_index ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS begins
    FROM launches AS l
    INNER JOIN placed AS p USING (trace_id)
    WHERE l.timing = 'timeline' AND l.start_ns + p.shift_ns < $last_ns AND l.end_ns + p.shift_ns >= $first_ns
)

SELECT
    number,
    device,
    begins + shift_ns AS begins,
    ends + shift_ns AS ends,
    NULL::VARCHAR AS cause,
    NULL::VARCHAR AS waiting_call,
    NULL::BOOLEAN AS is_carried,
    NULL::BIGINT AS host_late_ns,
    NULL::BIGINT AS no_call_ns,
    NULL::VARCHAR AS next,
    NULL::VARCHAR AS next_op
FROM held
WHERE ends > begins
ORDER BY ends - begins DESC, number, begins
LIMIT $most;
