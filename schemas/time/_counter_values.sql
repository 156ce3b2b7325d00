-- Values over time that a timeline draws as lanes, of the traces in `chosen` (names a relation: trace_id), on their clocks: counters, memory in use, and the power,
-- clocks and utilisation that a log or kerneldb record read meanwhile, matched as in power_logs.
--
-- Memory is what the allocator said, or where it said nothing, the sum of the recorded allocations less releases so far on the device.
CREATE OR REPLACE MACRO _counter_values(chosen) AS TABLE
WITH _read AS (
    SELECT t.trace_id, l.device, p.epoch_ns, p.epoch_ns - l.offset_ns AS ts_ns, p.ts_ns AS own_ns, t.window_start_ns, t.window_end_ns, l.period_ns,
        p.power_w, p.sm_mhz, p.memory_mhz, p.temperature_c, p.gpu_util_pct, p.memory_util_pct
    FROM power_samples AS p
    INNER JOIN power_logs AS l ON l.series = concat_ws('/', p.trace_id, p.run_id, p.source, p.device, p.gpu)
    INNER JOIN traces AS t ON l.trace = t.name
    WHERE t.trace_id IN (SELECT trace_id FROM query_table(chosen))
),

_told AS (
    SELECT trace_id, device, coalesce(ts_ns, own_ns) AS ts_ns, unnest([
        {'name': 'power', 'unit': 'W', 'value': power_w},
        {'name': 'SM clock', 'unit': 'MHz', 'value': sm_mhz},
        {'name': 'memory clock', 'unit': 'MHz', 'value': memory_mhz},
        {'name': 'temperature', 'unit': '°C', 'value': temperature_c},
        {'name': 'GPU utilisation', 'unit': '%', 'value': gpu_util_pct},
        {'name': 'memory utilisation', 'unit': '%', 'value': memory_util_pct}
    ]) AS told
    FROM _read
    -- Readings that end beside the trace: what was before it by less than two of them is what held when it began.
    WHERE coalesce(coalesce(ts_ns, own_ns) BETWEEN window_start_ns - 2 * coalesce(period_ns, 0) AND window_end_ns, true)
),

_summed AS (
    SELECT
        trace_id,
        device_type,
        device,
        ts_ns,
        coalesce(
            total_allocated_bytes,
            CASE
                WHEN count(total_allocated_bytes) OVER place = 0
                    THEN sum(bytes) OVER (PARTITION BY trace_id, device_type, device ORDER BY ts_ns, event_index ROWS UNBOUNDED PRECEDING)
            END
        )::DOUBLE AS value
    FROM memory_events
    WHERE trace_id IN (SELECT trace_id FROM query_table(chosen)) AND ts_ns IS NOT NULL AND (bytes IS NOT NULL OR total_allocated_bytes IS NOT NULL)
    WINDOW place AS (PARTITION BY trace_id, device_type, device)
)

SELECT trace_id, counter || coalesce(', GPU ' || device, '') AS name, unit, ts_ns, value
FROM samples
WHERE trace_id IN (SELECT trace_id FROM query_table(chosen)) AND value IS NOT NULL AND ts_ns IS NOT NULL
UNION ALL
SELECT trace_id, 'allocated, ' || coalesce(device_type || ' ', '') || coalesce(device::VARCHAR, ''), 'bytes', ts_ns, value
FROM _summed
WHERE value IS NOT NULL
UNION ALL
SELECT trace_id, told.name || coalesce(', GPU ' || device, ''), told.unit, ts_ns, told.value
FROM _told
WHERE told.value IS NOT NULL;
