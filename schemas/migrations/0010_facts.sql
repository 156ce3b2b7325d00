-- Facts of profilers that versions up to 0.1.0 left out.
CREATE TABLE source_counters (
    trace_id VARCHAR NOT NULL,
    launch_index BIGINT,
    kernel_index BIGINT NOT NULL,
    kernel VARCHAR,
    level VARCHAR NOT NULL,
    file VARCHAR,
    line BIGINT,
    instruction BIGINT,
    address BIGINT,
    text VARCHAR,
    metric VARCHAR NOT NULL,
    value DOUBLE
);
