-- Counters of a stretch of the axis, memory that a framework holds among them: the largest value in each bin of $step_ns; without a bin, of the whole trace.
WITH placed AS (
    SELECT
        unnest($traces::VARCHAR[]) AS trace_id,
        unnest($shifts::BIGINT[]) AS shift_ns,
        unnest($numbers::USMALLINT[]) AS number
),

found AS (
    SELECT trace_id, counter || coalesce(', GPU ' || device, '') AS name, unit, ts_ns, value
    FROM samples
    WHERE value IS NOT NULL AND ts_ns IS NOT NULL
    UNION ALL
    SELECT
        trace_id,
        'allocated, ' || coalesce(device_type || ' ', '') || coalesce(device::VARCHAR, ''),
        'bytes',
        ts_ns,
        total_allocated_bytes
    FROM memory_events
    WHERE total_allocated_bytes IS NOT NULL AND ts_ns IS NOT NULL
)

SELECT
    p.number,
    f.name,
    f.unit,
    CASE
        WHEN f.ts_ns + p.shift_ns >= $first_ns AND f.ts_ns + p.shift_ns < $last_ns THEN (f.ts_ns + p.shift_ns - $first_ns) // $step_ns
    END AS bin,
    max(f.value) AS value
FROM found AS f
INNER JOIN placed AS p USING (trace_id)
GROUP BY GROUPING SETS ((p.number, f.name, f.unit, bin), (p.number, f.name, f.unit))
ORDER BY p.number, f.name, grouping(bin) DESC, bin;
