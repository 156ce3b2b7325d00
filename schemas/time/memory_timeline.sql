-- Each allocation and release with the memory in use after it, where it was released, and whether it was held when most was in use.
--
-- For each process and device. Most is in use where allocated_bytes is highest, or net_bytes where the profiler prints no totals. An allocation lasts
-- until the next event at its address; without addresses (torch 1.8) nobody knows, and its release is NULL. In no order.
--
-- Columns:
--   trace_id, trace: as in kernels
--   process, thread, device_type, device, event_index, ts_ns, address, bytes: as in memory_events
--   allocated_bytes BIGINT [bytes]: In use after it, of the allocator's blocks, as recorded.
--   reserved_bytes BIGINT [bytes]: Bytes that the allocator holds after it, in use or cached, as recorded.
--   net_bytes BIGINT [bytes]: Sum of the recorded allocations less releases so far: what was allocated before the recording is not in it.
--   is_peak BOOLEAN: Whether most is in use after it; the first of several such.
--   released_index BIGINT: event_index of the release of an allocation; NULL for one that outlives the recording.
--   released_ns BIGINT [ns]: When it was released, relative to base_ns of the trace.
--   held_at_peak BOOLEAN: Whether an allocation was in use at the peak; NULL for a release, and without addresses.
--   op VARCHAR: Innermost operator around it, such as aten::empty.
--   root_op VARCHAR: Outermost operator around it, which the program called; NULL between operators. Steps of the profiler, which torch up to 1.8
--     recorded as operators, are none.
--   module, python_line: as in ops
-- Example:
--   SELECT trace, device, ts_ns, allocated_bytes, reserved_bytes, root_op FROM memory_timeline WHERE is_peak;
CREATE OR REPLACE VIEW memory_timeline AS
WITH _steps AS (
    SELECT
        m.*,
        t.name AS trace,
        sum(bytes) OVER place AS net_bytes,
        row_number() OVER place AS step,
        lead(event_index) OVER block AS next_index,
        lead(ts_ns) OVER block AS next_ns
    FROM memory_events AS m
    INNER JOIN traces AS t USING (trace_id)
    WHERE ts_ns IS NOT NULL
    WINDOW
        place AS (PARTITION BY t.name, process, device_type, device ORDER BY ts_ns, event_index ROWS UNBOUNDED PRECEDING),
        block AS (PARTITION BY t.name, process, device_type, device, address ORDER BY ts_ns, event_index)
),

_peaks AS (
    SELECT
        *,
        arg_max(step, (coalesce(total_allocated_bytes, net_bytes), -step)) OVER place AS peak_step,
        arg_max(ts_ns, (coalesce(total_allocated_bytes, net_bytes), -step)) OVER place AS peak_ns,
        arg_max(event_index, (coalesce(total_allocated_bytes, net_bytes), -step)) OVER place AS peak_index
    FROM _steps
    WINDOW place AS (PARTITION BY trace, process, device_type, device)
),

_roots AS (
    SELECT o.trace_id, o.process, o.thread, o.start_ns, o.start_ns + o.duration_ns AS end_ns, o.name
    FROM ops AS o
    LEFT JOIN ops AS above ON o.trace_id = above.trace_id AND o.parent_id = above.op_id
    WHERE
        o.start_ns IS NOT NULL
        AND o.name NOT LIKE 'ProfilerStep#%'
        AND (o.depth = 0 OR (above.depth = 0 AND above.name LIKE 'ProfilerStep#%'))
)

SELECT
    m.trace_id,
    m.trace,
    m.process,
    m.thread,
    m.device_type,
    m.device,
    m.event_index,
    m.ts_ns,
    m.address,
    m.bytes,
    m.total_allocated_bytes AS allocated_bytes,
    m.total_reserved_bytes AS reserved_bytes,
    m.net_bytes::BIGINT AS net_bytes,
    m.step = m.peak_step AS is_peak,
    CASE WHEN m.bytes > 0 AND m.address IS NOT NULL THEN m.next_index END AS released_index,
    CASE WHEN m.bytes > 0 AND m.address IS NOT NULL THEN m.next_ns END AS released_ns,
    CASE
        WHEN m.bytes > 0 AND m.address IS NOT NULL
            THEN m.step <= m.peak_step AND coalesce((m.next_ns, m.next_index) > (m.peak_ns, m.peak_index), true)
    END AS held_at_peak,
    o.name AS op,
    CASE WHEN m.op_id IS NOT NULL AND m.ts_ns <= r.end_ns THEN r.name END AS root_op,
    o.module,
    o.python_line
FROM _peaks AS m
LEFT JOIN ops AS o ON m.trace_id = o.trace_id AND m.op_id = o.op_id
ASOF LEFT JOIN _roots AS r
    ON m.trace_id = r.trace_id AND m.process = r.process AND m.thread = r.thread AND m.ts_ns >= r.start_ns;
