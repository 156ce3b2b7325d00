-- What the profilers say beside launches: waits between streams, collectives in full.
CREATE TABLE sync_events (
    trace_id VARCHAR NOT NULL,
    sync_index BIGINT NOT NULL,
    kind VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    process VARCHAR,
    thread VARCHAR,
    device INTEGER,
    context BIGINT,
    stream BIGINT,
    start_ns BIGINT,
    duration_ns BIGINT,
    correlation_id BIGINT,
    event_id BIGINT,
    waits_on_stream BIGINT,
    waits_on_correlation_id BIGINT,
    details VARCHAR
);
ALTER TABLE ops ADD COLUMN details VARCHAR;
ALTER TABLE launches ADD COLUMN warps_per_multiprocessor DOUBLE;
