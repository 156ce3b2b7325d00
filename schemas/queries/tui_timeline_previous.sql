-- The last $times selected launches of a lane before another one, down to a time, latest first; with $signature_id, of that signature.
SELECT trace_id, launch_index
FROM laned
WHERE
    trace_id = $trace_id
    AND start_ns >= $bound_ns
    AND start_ns <= $start_ns
    AND (start_ns < $start_ns OR launch_index < $launch_index)
    AND process IS NOT DISTINCT FROM coalesce($process::VARCHAR, process)
    AND device IS NOT DISTINCT FROM $device::INTEGER
    AND lane IS NOT DISTINCT FROM $lane::BIGINT
    AND ($signature_id::VARCHAR IS NULL OR signature_id = $signature_id)
ORDER BY start_ns DESC, launch_index DESC
LIMIT $times;
