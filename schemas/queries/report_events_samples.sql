-- Counters in a stretch of a trace, memory that a framework holds among them: of several values in a ten-thousandth of it the largest; the last one before
-- it, too.
WITH _ids AS (
    SELECT trace_id FROM traces WHERE name = $trace
),

_found AS (
    SELECT counter || coalesce(', GPU ' || device, '') AS name, ts_ns, value, unit
    FROM samples WHERE trace_id IN (FROM _ids) AND value IS NOT NULL
    UNION ALL
    SELECT 'allocated, ' || coalesce(device_type || ' ', '') || coalesce(device::VARCHAR, ''), ts_ns, total_allocated_bytes, 'bytes'
    FROM memory_events WHERE trace_id IN (FROM _ids) AND total_allocated_bytes IS NOT NULL
),

_binned AS (
    SELECT *, CASE WHEN ts_ns >= $first_ns THEN (ts_ns - $first_ns) // greatest(1, ($last_ns - $first_ns) // 10000) ELSE -1 END AS bin
    FROM _found
    WHERE ts_ns < $last_ns
)

SELECT
    name,
    CASE WHEN bin < 0 THEN max(ts_ns) ELSE min(ts_ns) END AS ts_ns,
    CASE WHEN bin < 0 THEN arg_max(value, ts_ns) ELSE max(value) END AS value,
    any_value(unit) AS unit
FROM _binned
GROUP BY name, bin
ORDER BY name, ts_ns;
