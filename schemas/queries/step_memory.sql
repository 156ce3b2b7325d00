-- Allocations and releases on devices of a trace, from a moment on.
SELECT m.ts_ns, m.address, m.bytes
FROM memory_events AS m
WHERE
    m.trace_id = $trace_id
    AND m.ts_ns >= $from_ns
    AND m.address IS NOT NULL
    AND m.bytes <> 0
    AND m.device_type IS DISTINCT FROM 'cpu'
ORDER BY m.ts_ns, m.event_index;
