-- Allocations and releases of a trace, on devices or in host memory, up to the first operator behind a window of time.
SELECT m.ts_ns, m.address, m.bytes
FROM memory_events AS m
WHERE
    m.trace_id = $trace_id
    AND m.ts_ns < coalesce((SELECT min(o.start_ns) FROM ops AS o WHERE o.trace_id = $trace_id AND o.start_ns > $until_ns), 9223372036854775807)
    AND m.address IS NOT NULL
    AND m.bytes <> 0
    AND (m.device_type IS NOT DISTINCT FROM 'cpu') = $host
ORDER BY m.ts_ns, m.event_index;
