CREATE TABLE ops (
    trace_id VARCHAR NOT NULL,
    op_id BIGINT NOT NULL,
    name VARCHAR NOT NULL,
    call_id VARCHAR,
    process VARCHAR,
    thread VARCHAR,
    start_ns BIGINT,
    duration_ns BIGINT,
    parent_id BIGINT,
    depth INTEGER,
    range_id BIGINT,
    external_id BIGINT,
    record_function_id BIGINT,
    sequence_number BIGINT,
    forward_thread BIGINT,
    forward_op_id BIGINT,
    module VARCHAR,
    python_line VARCHAR,
    call_stack VARCHAR,
    recorded_flops DOUBLE
);

CREATE TABLE api_calls (
    trace_id VARCHAR NOT NULL,
    api_index BIGINT NOT NULL,
    kind VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    process VARCHAR,
    thread VARCHAR,
    start_ns BIGINT,
    duration_ns BIGINT,
    correlation_id BIGINT,
    external_id BIGINT,
    op_id BIGINT,
    range_id BIGINT,
    bytes BIGINT,
    details VARCHAR
);

CREATE TABLE ranges (
    trace_id VARCHAR NOT NULL,
    range_id BIGINT NOT NULL,
    kind VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    process VARCHAR,
    thread VARCHAR,
    device INTEGER,
    stream BIGINT,
    start_ns BIGINT,
    duration_ns BIGINT,
    parent_id BIGINT,
    depth INTEGER,
    path VARCHAR,
    finished BOOLEAN,
    details VARCHAR
);

CREATE TABLE memory_events (
    trace_id VARCHAR NOT NULL,
    event_index BIGINT NOT NULL,
    process VARCHAR,
    thread VARCHAR,
    ts_ns BIGINT,
    address VARCHAR,
    bytes BIGINT,
    total_allocated_bytes BIGINT,
    total_reserved_bytes BIGINT,
    device_type VARCHAR,
    device INTEGER,
    op_id BIGINT
);

CREATE TABLE samples (
    trace_id VARCHAR NOT NULL,
    counter VARCHAR NOT NULL,
    process VARCHAR,
    device INTEGER,
    ts_ns BIGINT,
    value DOUBLE,
    unit VARCHAR
);

CREATE TABLE metrics (
    trace_id VARCHAR NOT NULL,
    launch_index BIGINT,
    range_id BIGINT,
    metric VARCHAR NOT NULL,
    value DOUBLE,
    text VARCHAR,
    unit VARCHAR,
    precision DOUBLE,
    instance VARCHAR,
    pass INTEGER,
    signature_id VARCHAR,
    source_metric VARCHAR,
    section VARCHAR
);

CREATE TABLE annotations (
    signature_id VARCHAR NOT NULL,
    key VARCHAR NOT NULL,
    value VARCHAR,
    author VARCHAR,
    noted_at TIMESTAMP,
    number DOUBLE
);
