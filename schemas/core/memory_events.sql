-- Allocations and releases that a framework or a profiler recorded.
CREATE TABLE memory_events (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    event_index BIGINT NOT NULL,  -- Number of the event in its trace.
    process VARCHAR,  -- Process, as recorded.
    thread VARCHAR,  -- Thread, as recorded.
    ts_ns BIGINT,  -- [ns] Time, relative to base_ns of the trace.
    address VARCHAR,  -- Address, as recorded.
    bytes BIGINT,  -- [bytes] Bytes allocated; negative for a release.
    total_allocated_bytes BIGINT,  -- [bytes] Bytes in use after it, by the allocator's own count; NULL where that was not recorded.
    total_reserved_bytes BIGINT,  -- [bytes] Bytes that the allocator holds after it, in use or cached; NULL where that was not recorded.
    device_type VARCHAR,  -- cpu, cuda, hip, ….
    device INTEGER,  -- Index of the device.
    op_id BIGINT,  -- Operator around it, in ops.
    memory_kind VARCHAR  -- Kind of memory as the tool calls it, such as Device, Pinned or Managed.
);
