-- Power, energy counter and clocks over time. `source` is record, replay, log or trace; `epoch_ns` is wall-clock time, UTC.
CREATE TABLE power_samples (
    trace_id VARCHAR,
    run_id VARCHAR,
    source VARCHAR NOT NULL,
    stage VARCHAR,
    device INTEGER,
    gpu VARCHAR,
    epoch_ns BIGINT,
    ts_ns BIGINT,
    power_w DOUBLE,
    energy_mj DOUBLE,
    memory_power_w DOUBLE,
    sm_mhz DOUBLE,
    memory_mhz DOUBLE,
    temperature_c DOUBLE,
    gpu_util_pct DOUBLE,
    memory_util_pct DOUBLE,
    throttle VARCHAR
);

-- Whole-model measurements without a profiler: one row per stage, mode, repetition and quantity.
CREATE TABLE measurements (
    trace_id VARCHAR,
    run VARCHAR,
    model VARCHAR,
    stage VARCHAR NOT NULL,
    mode VARCHAR,
    repetition INTEGER,
    quantity VARCHAR NOT NULL,
    value DOUBLE,
    low DOUBLE,
    high DOUBLE,
    unit VARCHAR,
    n BIGINT,
    method VARCHAR,
    reason VARCHAR,
    measured_at TIMESTAMP,
    uuid VARCHAR
);
