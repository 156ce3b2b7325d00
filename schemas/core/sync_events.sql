-- Waits of streams, contexts and the host for events, and the events that were recorded: what makes one stream wait for another.
CREATE TABLE sync_events (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    sync_index BIGINT NOT NULL,  -- Number of the event in its trace.
    kind VARCHAR NOT NULL,  -- event_record, stream_wait_event, event_sync, stream_sync, context_sync; others as the tool calls them.
    name VARCHAR NOT NULL,  -- Its name, as recorded.
    process VARCHAR,  -- Process, as recorded.
    thread VARCHAR,  -- Thread, as recorded.
    device INTEGER,  -- Index of the device.
    context BIGINT,  -- Context.
    stream BIGINT,  -- Stream that waits, or on which the event was recorded; NULL where a context or device waits.
    start_ns BIGINT,  -- [ns] Start, relative to base_ns of the trace.
    duration_ns BIGINT,  -- [ns] Duration.
    correlation_id BIGINT,  -- Number that the tool gave to call and activity.
    event_id BIGINT,  -- Event that is waited for, or was recorded.
    waits_on_stream BIGINT,  -- Stream on which that event was recorded.
    waits_on_correlation_id BIGINT,  -- correlation_id of the call that recorded it.
    details VARCHAR  -- Other arguments.
);
