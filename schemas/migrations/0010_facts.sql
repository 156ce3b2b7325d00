-- Facts of traces that were skipped before: synchronisation, samples of the CPU, kinds of memory.
CREATE TABLE sync_events (
    trace_id VARCHAR NOT NULL,
    sync_index BIGINT NOT NULL,
    kind VARCHAR NOT NULL,
    name VARCHAR,
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
CREATE TABLE cpu_samples (
    trace_id VARCHAR NOT NULL,
    sample_index BIGINT NOT NULL,
    process VARCHAR,
    thread VARCHAR,
    cpu INTEGER,
    ts_ns BIGINT,
    state VARCHAR,
    function VARCHAR,
    stack VARCHAR,
    cycles BIGINT
);
ALTER TABLE memory_events ADD COLUMN memory_kind VARCHAR;
