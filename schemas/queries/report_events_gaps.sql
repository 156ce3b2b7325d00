-- When no launch of a device ran, for $step_ns and more, and why; $carried stands before a call whose cause is carried over.
WITH chosen AS (FROM kernels WHERE trace = $trace)

SELECT
    'GPU ' || coalesce(device::VARCHAR, '?') AS place,
    cause,
    cause || CASE WHEN is_carried THEN $carried || waiting_call ELSE coalesce(': ' || waiting_call, '') END || coalesce(', then ' || next_op, ', then ' || next) AS name,
    gap_start_ns AS start_ns,
    gap_ns AS duration_ns
FROM idle_gaps('chosen')
WHERE gap_ns >= $step_ns
ORDER BY place, start_ns;
