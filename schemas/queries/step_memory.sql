-- Allocations and releases of a trace, on devices or in host memory, from a moment on.
SELECT m.ts_ns, m.address, m.bytes
FROM memory_events AS m
WHERE
    m.trace_id = $trace_id
    AND m.ts_ns >= $from_ns
    AND m.address IS NOT NULL
    AND m.bytes <> 0
    AND (m.device_type IS NOT DISTINCT FROM 'cpu') = $host
ORDER BY m.ts_ns, m.event_index;
