-- The launch that ended a gap: of the device, begun at $start_ns.
SELECT trace_id, launch_index
FROM launches
WHERE trace_id = $trace_id AND device IS NOT DISTINCT FROM $device AND start_ns = $start_ns AND timing = 'timeline'
ORDER BY launch_index
LIMIT 1;
