-- How much memory operators, modules or lines allocated, their own peak, and what they held when most was in use, most held first.
--
-- For each process and device. The row `(before the recording)` is what was in use at the peak and had been allocated before the first event; it is
-- known where the profiler prints totals. So the rows of a device add up to `device_peak_bytes`.
--
-- Arguments:
--   key: What to sum by: root_op (the operator that the program called), op (the innermost one, mostly aten::empty), module or python_line.
-- Columns:
--   trace: as in kernels
--   process, device_type, device: as in memory_events
--   name VARCHAR: The operator, module or line; NULL where none is known.
--   allocations BIGINT: Number of allocations.
--   allocated_bytes BIGINT [bytes]: Their sum.
--   peak_bytes BIGINT [bytes]: Most that this row alone held at one time; NULL without addresses, since nobody knows the releases.
--   at_peak_bytes BIGINT [bytes]: What it held when most was in use on the device; NULL without addresses.
--   at_peak_pct DOUBLE [%]: Share of device_peak_bytes.
--   device_peak_bytes BIGINT [bytes]: Most that was in use on the device; where no totals are printed, of what was allocated while recording.
--   reserved_bytes BIGINT [bytes]: What the allocator had reserved then: what it has beyond device_peak_bytes is cached, or too fragmented to be used.
--   peak_ns BIGINT [ns]: When that was, relative to base_ns of the trace.
-- Example:
--   SELECT device, name, allocated_bytes, peak_bytes, at_peak_bytes, at_peak_pct FROM memory_by('root_op') LIMIT 10;
CREATE OR REPLACE MACRO memory_by(key := 'root_op') AS TABLE
WITH _keyed AS (
    SELECT
        *,
        CASE lower(key)
            WHEN 'root_op' THEN root_op
            WHEN 'op' THEN op
            WHEN 'module' THEN module
            WHEN 'python_line' THEN python_line
            ELSE error('memory_by takes root_op, op, module or python_line; not ' || key)
        END AS name
    FROM memory_timeline
),

_allocated AS (FROM _keyed WHERE bytes > 0),

_changes AS (
    SELECT trace_id, process, device_type, device, name, ts_ns, event_index, bytes AS change FROM _allocated
    UNION ALL
    SELECT trace_id, process, device_type, device, name, released_ns, released_index, -bytes FROM _allocated WHERE released_index IS NOT NULL
),

_running AS (
    SELECT
        *,
        sum(change) OVER (
            PARTITION BY trace_id, process, device_type, device, name ORDER BY ts_ns, event_index ROWS UNBOUNDED PRECEDING
        ) AS held
    FROM _changes
),

_own AS (
    SELECT trace_id, process, device_type, device, name, max(held) AS peak_bytes FROM _running GROUP BY ALL
),

_devices AS (
    SELECT
        trace_id,
        trace,
        process,
        device_type,
        device,
        max(coalesce(allocated_bytes, net_bytes)) FILTER (is_peak) AS device_peak_bytes,
        max(reserved_bytes) FILTER (is_peak) AS reserved_bytes,
        max(ts_ns) FILTER (is_peak) AS peak_ns,
        bool_and(allocated_bytes IS NOT NULL) AND bool_and(address IS NOT NULL) AS is_whole,
        sum(bytes) FILTER (held_at_peak) AS known_bytes
    FROM _keyed
    GROUP BY ALL
),

_sums AS (
    SELECT
        a.trace_id,
        a.process,
        a.device_type,
        a.device,
        a.name,
        count(*) AS allocations,
        sum(a.bytes) AS allocated_bytes,
        CASE WHEN bool_and(a.address IS NOT NULL) THEN any_value(o.peak_bytes) END AS peak_bytes,
        CASE WHEN bool_and(a.address IS NOT NULL) THEN coalesce(sum(a.bytes) FILTER (a.held_at_peak), 0) END AS at_peak_bytes
    FROM _allocated AS a
    LEFT JOIN _own AS o
        ON
            a.trace_id = o.trace_id
            AND a.process IS NOT DISTINCT FROM o.process
            AND a.device_type IS NOT DISTINCT FROM o.device_type
            AND a.device IS NOT DISTINCT FROM o.device
            AND a.name IS NOT DISTINCT FROM o.name
    GROUP BY ALL
    UNION ALL
    SELECT
        trace_id, process, device_type, device, '(before the recording)', 0, 0, NULL, device_peak_bytes - coalesce(known_bytes, 0)
    FROM _devices
    WHERE is_whole AND device_peak_bytes > coalesce(known_bytes, 0)
)

SELECT
    d.trace,
    d.process,
    d.device_type,
    d.device,
    s.name,
    s.allocations,
    s.allocated_bytes::BIGINT AS allocated_bytes,
    s.peak_bytes::BIGINT AS peak_bytes,
    s.at_peak_bytes::BIGINT AS at_peak_bytes,
    100.0 * s.at_peak_bytes / nullif(d.device_peak_bytes, 0) AS at_peak_pct,
    d.device_peak_bytes::BIGINT AS device_peak_bytes,
    d.reserved_bytes::BIGINT AS reserved_bytes,
    d.peak_ns
FROM _sums AS s
INNER JOIN _devices AS d
    ON
        s.trace_id = d.trace_id
        AND s.process IS NOT DISTINCT FROM d.process
        AND s.device_type IS NOT DISTINCT FROM d.device_type
        AND s.device IS NOT DISTINCT FROM d.device
ORDER BY d.trace, d.process, d.device_type DESC, d.device, s.at_peak_bytes DESC NULLS LAST, s.allocated_bytes DESC, s.name;
