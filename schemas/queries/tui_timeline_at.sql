-- The selected launch of a lane that ran longest between two times of its trace; of several, the first.
SELECT trace_id, launch_index
FROM laned
WHERE
    trace_id = $trace_id
    AND start_ns < $last_ns
    AND end_ns >= $first_ns
    AND process IS NOT DISTINCT FROM coalesce($process::VARCHAR, process)
    AND device IS NOT DISTINCT FROM $device::INTEGER
    AND lane IS NOT DISTINCT FROM $lane::BIGINT
ORDER BY least(end_ns, $last_ns) - greatest(start_ns, $first_ns) DESC, start_ns, launch_index
LIMIT 1;
