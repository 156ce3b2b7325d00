-- When no launch ran (of the launches in `near`), by the axis, the longest first.
WITH placed AS (
    SELECT
        unnest($traces::VARCHAR[]) AS trace_id,
        unnest($shifts::BIGINT[]) AS shift_ns,
        unnest($numbers::USMALLINT[]) AS number
)

SELECT
    p.number,
    g.device,
    g.gap_start_ns + p.shift_ns AS begins,
    g.gap_end_ns + p.shift_ns AS ends,
    g.cause,
    g.waiting_call,
    g.is_carried,
    g.host_late_ns,
    g.no_call_ns,
    g.next,
    g.next_op
FROM idle_gaps('near') AS g
INNER JOIN traces AS t ON g.trace = t.name
INNER JOIN placed AS p ON t.trace_id = p.trace_id
ORDER BY g.gap_ns DESC, p.number, g.gap_start_ns
LIMIT $most;
