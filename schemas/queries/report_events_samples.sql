-- Counters over time, memory that a framework holds among them.
WITH _ids AS (
    SELECT trace_id FROM traces WHERE name = $trace
),

_found AS (
    SELECT counter || coalesce(', GPU ' || device, '') AS name, ts_ns, value, unit
    FROM samples WHERE trace_id IN (FROM _ids) AND value IS NOT NULL
    UNION ALL
    SELECT 'allocated, ' || coalesce(device_type || ' ', '') || coalesce(device::VARCHAR, ''), ts_ns, total_allocated_bytes, 'bytes'
    FROM memory_events WHERE trace_id IN (FROM _ids) AND total_allocated_bytes IS NOT NULL
)

-- Of several values in a ten-thousandth of the time the largest.
SELECT name, min(ts_ns) AS ts_ns, max(value) AS value, any_value(unit) AS unit
FROM (
    SELECT *, (ts_ns - min(ts_ns) OVER all_of) // greatest(1, (max(ts_ns) OVER all_of - min(ts_ns) OVER all_of) // 10000) AS bin
    FROM _found
    WHERE ts_ns IS NOT NULL
    WINDOW all_of AS (PARTITION BY name)
)
GROUP BY name, bin
ORDER BY name, ts_ns;
