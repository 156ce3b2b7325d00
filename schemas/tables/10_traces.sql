-- One capture by one tool. Ids are content hashes, so no writer has to ask another one for a number.
CREATE TABLE IF NOT EXISTS traces (
    trace_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    run VARCHAR,
    label VARCHAR,
    kind VARCHAR NOT NULL,
    source VARCHAR NOT NULL,
    tool VARCHAR,
    tool_version VARCHAR,
    framework_version VARCHAR,
    era VARCHAR,
    clock VARCHAR,
    base_ns BIGINT,
    window_start_ns BIGINT,
    window_end_ns BIGINT,
    rank INTEGER,
    world_size INTEGER,
    host VARCHAR,
    default_phase VARCHAR,
    has_shapes BOOLEAN,
    has_stacks BOOLEAN,
    launches BIGINT,
    metadata VARCHAR,
    reader_version INTEGER,
    ingested_at TIMESTAMP
);

CREATE TABLE IF NOT EXISTS trace_files (
    trace_id VARCHAR NOT NULL,
    file_index INTEGER NOT NULL,
    path VARCHAR,
    role VARCHAR,
    sha256 VARCHAR,
    bytes BIGINT,
    compressed_bytes BIGINT,
    events BIGINT,
    report VARCHAR
);

CREATE TABLE IF NOT EXISTS ingest_reports (
    trace_id VARCHAR NOT NULL,
    file_index INTEGER NOT NULL,
    outcome VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    n BIGINT NOT NULL,
    example VARCHAR
);

CREATE TABLE IF NOT EXISTS trace_tags (
    trace_id VARCHAR NOT NULL,
    key VARCHAR NOT NULL,
    value VARCHAR
);

CREATE TABLE IF NOT EXISTS devices (
    trace_id VARCHAR NOT NULL,
    process VARCHAR,
    device INTEGER NOT NULL,
    vendor VARCHAR,
    name VARCHAR,
    arch VARCHAR,
    multiprocessors INTEGER,
    memory_bytes BIGINT,
    warp_size INTEGER,
    max_threads_per_multiprocessor INTEGER,
    registers_per_multiprocessor INTEGER,
    shared_bytes_per_multiprocessor BIGINT,
    shared_bytes_per_block_optin BIGINT,
    clock_mhz DOUBLE,
    memory_clock_mhz DOUBLE,
    properties VARCHAR
);

CREATE TABLE IF NOT EXISTS process_groups (
    trace_id VARCHAR NOT NULL,
    group_name VARCHAR,
    description VARCHAR,
    backend VARCHAR,
    group_size INTEGER,
    ranks VARCHAR
);
