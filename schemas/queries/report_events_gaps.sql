-- When no launch of a device ran, and why.
SELECT
    'GPU ' || coalesce(device::VARCHAR, '?') AS place,
    cause,
    cause || coalesce(': ' || waiting_call, '') || coalesce(', then ' || next_op, ', then ' || next) AS name,
    gap_start_ns AS start_ns,
    gap_ns AS duration_ns
FROM idle_gaps()
WHERE trace = $trace
ORDER BY place, start_ns;
