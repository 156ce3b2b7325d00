-- When no launch of a device ran, in a stretch of a trace, whatever the cause: what lasted $step_ns and more, and the shorter times summed by the bin of
-- $step_ns in which they begin, as in `report_events_launches`: `n` of them, `busy_ns` together.
WITH _launched AS NOT MATERIALIZED (
    SELECT l.device, l.start_ns, l.end_ns
    FROM launches AS l
    INNER JOIN traces AS t USING (trace_id)
    WHERE
        t.name = $trace
        AND l.timing = 'timeline'
        AND coalesce(t.primary_timing, 'timeline') = 'timeline'
        AND l.end_ns >= l.start_ns
),

_near AS (
    FROM _launched WHERE start_ns < $last_ns AND end_ns >= $first_ns
    UNION ALL
    SELECT device, min(start_ns), max(end_ns) FROM _launched WHERE end_ns < $first_ns GROUP BY device
    UNION ALL
    SELECT device, min(start_ns), max(end_ns) FROM _launched WHERE start_ns >= $last_ns GROUP BY device
),

_held AS (
    SELECT
        device,
        start_ns AS end_ns,
        max(end_ns) OVER (PARTITION BY device ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS start_ns
    FROM _near
),

_idle AS (
    SELECT 'GPU ' || coalesce(device::VARCHAR, '?') AS place, start_ns, end_ns - start_ns AS duration_ns
    FROM _held
    WHERE end_ns > start_ns AND start_ns < $last_ns AND end_ns >= $first_ns
)

SELECT place, start_ns, duration_ns, 1 AS n, duration_ns AS busy_ns
FROM _idle
WHERE duration_ns >= $step_ns
UNION ALL
SELECT place, min(start_ns), max(start_ns + duration_ns) - min(start_ns), count(*), sum(duration_ns)::BIGINT
FROM _idle
WHERE duration_ns < $step_ns
GROUP BY place, (start_ns - $first_ns) // $step_ns
ORDER BY place, start_ns;
