-- One capture by one tool. Ids are content hashes, so no writer has to ask another one for a number.
CREATE TABLE traces (
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
    ingested_at TIMESTAMP,
    job VARCHAR,
    launches_start_ns BIGINT,
    launches_end_ns BIGINT,
    bin_ns BIGINT,
    stated_run VARCHAR,
    stated_job VARCHAR,
    is_primary BOOLEAN,
    primary_timing VARCHAR,
    repeats VARCHAR[]
);

CREATE TABLE trace_files (
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

CREATE TABLE ingest_reports (
    trace_id VARCHAR NOT NULL,
    file_index INTEGER NOT NULL,
    outcome VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    n BIGINT NOT NULL,
    example VARCHAR
);

CREATE TABLE trace_tags (
    trace_id VARCHAR NOT NULL,
    key VARCHAR NOT NULL,
    value VARCHAR
);

CREATE TABLE devices (
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

CREATE TABLE process_groups (
    trace_id VARCHAR NOT NULL,
    group_name VARCHAR,
    description VARCHAR,
    backend VARCHAR,
    group_size INTEGER,
    ranks VARCHAR
);

-- What a trace is known by: a few of its launches, its sums, and the collectives of its process groups.
CREATE TABLE trace_evidence (
    trace_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    key VARCHAR,
    detail VARCHAR,
    n BIGINT,
    first_ns BIGINT,
    last_ns BIGINT,
    min_ns BIGINT,
    max_ns BIGINT,
    tolerance_ns BIGINT
);

-- Why two traces belong together (print, job), may (hint), or cannot (apart).
CREATE TABLE trace_links (
    trace_id VARCHAR NOT NULL,
    other_id VARCHAR NOT NULL,
    relation VARCHAR NOT NULL,
    method VARCHAR NOT NULL,
    score DOUBLE,
    evidence VARCHAR,
    apart_ns BIGINT
);
