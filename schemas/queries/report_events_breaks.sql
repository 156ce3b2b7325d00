-- When no launch of a device ran, in a stretch of a trace: what lasted $step_ns and more, whatever its cause. Launches are summed by the bin of $step_ns in
-- which they begin; such a break is between two of these.
WITH _launched AS NOT MATERIALIZED (
    SELECT l.device, l.start_ns, l.end_ns
    FROM launches AS l
    INNER JOIN traces AS t USING (trace_id)
    WHERE t.name = $trace AND l.timing = 'timeline' AND l.end_ns >= l.start_ns
),

_binned AS (
    SELECT device, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM _launched
    WHERE start_ns < $last_ns AND end_ns >= $first_ns
    GROUP BY device, (start_ns - $first_ns) // $step_ns
    UNION ALL
    SELECT device, min(start_ns), max(end_ns)
    FROM _launched
    WHERE end_ns < $first_ns
    GROUP BY device
    UNION ALL
    SELECT device, min(start_ns), max(end_ns)
    FROM _launched
    WHERE start_ns >= $last_ns
    GROUP BY device
),

_held AS (
    SELECT
        device,
        start_ns AS end_ns,
        max(end_ns) OVER (PARTITION BY device ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS start_ns
    FROM _binned
)

SELECT 'GPU ' || coalesce(device::VARCHAR, '?') AS place, start_ns, end_ns - start_ns AS duration_ns
FROM _held
WHERE end_ns - start_ns >= $step_ns AND start_ns < $last_ns AND end_ns >= $first_ns
ORDER BY place, start_ns;
