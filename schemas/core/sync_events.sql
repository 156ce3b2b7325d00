-- Synchronisation of host, streams and devices: records of events, and who waited for what.
CREATE TABLE sync_events (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    sync_index BIGINT NOT NULL,  -- Number of the event in its trace.
    kind VARCHAR NOT NULL,  -- event_record, stream_wait_event, event_sync, stream_sync or context_sync; unknown where the source does not say.
    name VARCHAR,  -- Name of the call, or what the tool calls it.
    process VARCHAR,  -- Process, as recorded.
    thread VARCHAR,  -- Thread, as recorded.
    device INTEGER,  -- Index of the device.
    context BIGINT,  -- Context of the device.
    stream BIGINT,  -- Stream that waits or records; NULL for a wait of the host for an event or a whole context.
    start_ns BIGINT,  -- [ns] Start, relative to base_ns of the trace.
    duration_ns BIGINT,  -- [ns] Duration.
    correlation_id BIGINT,  -- Number that the tool gave to the call.
    event_id BIGINT,  -- Event that is recorded or waited for.
    waits_on_stream BIGINT,  -- Stream on which that event was recorded.
    waits_on_correlation_id BIGINT,  -- correlation_id of the call that recorded it.
    details VARCHAR  -- Other facts, as JSON.
);
