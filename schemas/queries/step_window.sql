-- When the host began and ended an iteration: its step of the profiler, else from the call before its first launch to its last call.
SELECT
    coalesce(
        (SELECT min(r.start_ns) FROM ranges AS r WHERE r.trace_id = $trace_id AND r.name = $label AND r.device IS NULL),
        (
            SELECT max(coalesce(l.launch_start_ns, l.start_ns))
            FROM launches AS l
            WHERE l.trace_id = $trace_id AND l.device IS NOT DISTINCT FROM $device AND l.launch_index < $first
        ),
        0
    ) AS from_ns,
    coalesce(
        (SELECT max(r.start_ns + r.duration_ns) FROM ranges AS r WHERE r.trace_id = $trace_id AND r.name = $label AND r.device IS NULL),
        (
            SELECT max(coalesce(l.launch_start_ns, l.start_ns))
            FROM launches AS l
            WHERE l.trace_id = $trace_id AND l.device IS NOT DISTINCT FROM $device AND l.launch_index BETWEEN $first AND $last
        )
    ) AS until_ns;
