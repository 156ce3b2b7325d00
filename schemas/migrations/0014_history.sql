-- The history of a program: what each of its runs took, and where that changed.
CREATE TABLE history_runs (
    trace_id VARCHAR NOT NULL,
    series_id VARCHAR NOT NULL,
    workload VARCHAR NOT NULL,
    branch VARCHAR,
    device_name VARCHAR,
    rank INTEGER,
    commit VARCHAR NOT NULL,
    happened_at TIMESTAMP NOT NULL,
    recorded_at TIMESTAMP,
    environment VARCHAR NOT NULL,
    units BIGINT NOT NULL,
    scanned INTEGER
);
CREATE TABLE history_rollups (
    trace_id VARCHAR NOT NULL,
    subject VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    n BIGINT,
    total_ns BIGINT,
    value DOUBLE NOT NULL
);
CREATE TABLE history_changes (
    trace_id VARCHAR NOT NULL,
    before_trace_id VARCHAR NOT NULL,
    series_id VARCHAR NOT NULL,
    subject VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    first_commit VARCHAR NOT NULL,
    last_commit VARCHAR NOT NULL,
    before_value DOUBLE NOT NULL,
    after_value DOUBLE NOT NULL,
    change_pct DOUBLE NOT NULL,
    low_pct DOUBLE NOT NULL,
    high_pct DOUBLE NOT NULL,
    impact_ns DOUBLE,
    p_value DOUBLE NOT NULL,
    runs_before INTEGER NOT NULL,
    runs_after INTEGER NOT NULL,
    noise_pct DOUBLE NOT NULL,
    cause VARCHAR NOT NULL,
    detail VARCHAR
);
