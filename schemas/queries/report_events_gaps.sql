-- When no launch of a device ran, for $step_ns and more, and why: a call that is to blame was open, or had ended before.
WITH chosen AS (FROM kernels WHERE trace = $trace)

SELECT
    'GPU ' || coalesce(device::VARCHAR, '?') AS place,
    cause,
    concat(
        cause,
        CASE WHEN is_carried THEN ', after ' || waiting_call || ' had ended' ELSE ': ' || waiting_call END,
        ', then ' || coalesce(next_op, next)
    ) AS name,
    gap_start_ns AS start_ns,
    gap_ns AS duration_ns
FROM idle_gaps('chosen')
WHERE gap_ns >= $step_ns
ORDER BY place, start_ns;
