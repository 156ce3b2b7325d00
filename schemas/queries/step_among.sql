-- The selected launches of an iteration of a trace.
SELECT c.launch_index
FROM selection AS c
WHERE c.trace_id = $trace_id AND c.device IS NOT DISTINCT FROM $device AND c.launch_index BETWEEN $first AND $last;
