-- What further profilers tell, what was measured besides kernels, and the energy of replays.
ALTER TABLE launches ADD COLUMN reported_grid_x BIGINT;
ALTER TABLE launches ADD COLUMN reported_grid_y BIGINT;
ALTER TABLE launches ADD COLUMN reported_grid_z BIGINT;
ALTER TABLE launches ADD COLUMN reported_grid_unit VARCHAR;
ALTER TABLE launches ADD COLUMN registers_reported INTEGER;
ALTER TABLE launches ADD COLUMN agprs_reported INTEGER;
ALTER TABLE launches ADD COLUMN sgprs_reported INTEGER;
ALTER TABLE launches ADD COLUMN scratch_bytes BIGINT;
ALTER TABLE launches ADD COLUMN theoretical_occupancy DOUBLE;
ALTER TABLE launches ADD COLUMN theoretical_occupancy_cu DOUBLE;
ALTER TABLE launches ADD COLUMN theoretical_limiter VARCHAR;
ALTER TABLE launches ADD COLUMN queue BIGINT;
ALTER TABLE launches ADD COLUMN quality VARCHAR;
ALTER TABLE launches ADD COLUMN shared_config_bytes BIGINT;
ALTER TABLE launches ADD COLUMN iteration INTEGER;
ALTER TABLE launches ADD COLUMN steady BOOLEAN;

ALTER TABLE traces ADD COLUMN counted BOOLEAN;
ALTER TABLE rollups ADD COLUMN counted BOOLEAN;

ALTER TABLE annotations ADD COLUMN number DOUBLE;

ALTER TABLE metrics ADD COLUMN signature_id VARCHAR;
ALTER TABLE metrics ADD COLUMN source_metric VARCHAR;
ALTER TABLE metrics ADD COLUMN section VARCHAR;

-- Code that a trace names, launched or not.
CREATE TABLE kernel_symbols (
    trace_id VARCHAR NOT NULL,
    symbol_id BIGINT,
    code_object_id BIGINT,
    process VARCHAR,
    name_id VARCHAR NOT NULL,
    symbol VARCHAR NOT NULL,
    launches BIGINT,
    static_shared_bytes BIGINT,
    scratch_bytes BIGINT,
    kernarg_bytes BIGINT,
    registers_reported INTEGER,
    agprs_reported INTEGER,
    sgprs_reported INTEGER,
    target VARCHAR
);

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

ALTER TABLE replay_runs ADD COLUMN uuid VARCHAR;
ALTER TABLE replay_runs ADD COLUMN meter VARCHAR;
ALTER TABLE replay_runs ADD COLUMN meter_period_ms DOUBLE;
ALTER TABLE replay_runs ADD COLUMN idle_power_w DOUBLE;
ALTER TABLE replay_runs ADD COLUMN context_power_w DOUBLE;
ALTER TABLE replay_runs ADD COLUMN gap_power_w DOUBLE;
ALTER TABLE replay_runs ADD COLUMN gap_power_error_w DOUBLE;
ALTER TABLE replay_runs ADD COLUMN gap_ns DOUBLE;
ALTER TABLE replay_runs ADD COLUMN energy_reason VARCHAR;
ALTER TABLE replay_runs ADD COLUMN energy_drift DOUBLE;
ALTER TABLE replay_runs ADD COLUMN energy_details VARCHAR;

ALTER TABLE replay_calls ADD COLUMN energy_mj DOUBLE;
ALTER TABLE replay_calls ADD COLUMN energy_low_mj DOUBLE;
ALTER TABLE replay_calls ADD COLUMN energy_high_mj DOUBLE;
ALTER TABLE replay_calls ADD COLUMN above_gap_mj DOUBLE;
ALTER TABLE replay_calls ADD COLUMN above_gap_low_mj DOUBLE;
ALTER TABLE replay_calls ADD COLUMN above_gap_high_mj DOUBLE;
ALTER TABLE replay_calls ADD COLUMN energy_power_w DOUBLE;
ALTER TABLE replay_calls ADD COLUMN energy_busy_share DOUBLE;
ALTER TABLE replay_calls ADD COLUMN energy_seconds DOUBLE;
ALTER TABLE replay_calls ADD COLUMN energy_windows INTEGER;
ALTER TABLE replay_calls ADD COLUMN energy_method VARCHAR;
ALTER TABLE replay_calls ADD COLUMN energy_reason VARCHAR;
ALTER TABLE replay_calls ADD COLUMN energy_sm_mhz DOUBLE;
ALTER TABLE replay_calls ADD COLUMN energy_throttle VARCHAR;
ALTER TABLE replay_calls ADD COLUMN energy_details VARCHAR;

ALTER TABLE replays ADD COLUMN energy_mj DOUBLE;
ALTER TABLE replays ADD COLUMN energy_low_mj DOUBLE;
ALTER TABLE replays ADD COLUMN energy_high_mj DOUBLE;
ALTER TABLE replays ADD COLUMN above_gap_mj DOUBLE;
ALTER TABLE replays ADD COLUMN above_gap_low_mj DOUBLE;
ALTER TABLE replays ADD COLUMN above_gap_high_mj DOUBLE;
ALTER TABLE replays ADD COLUMN energy_method VARCHAR;
ALTER TABLE replays ADD COLUMN energy_reason VARCHAR;

-- Reference tables: filled anew from ../reference/<table>.csv whenever views and macros are made anew.
CREATE TABLE gpu_specs (
    name VARCHAR NOT NULL,
    vendor VARCHAR NOT NULL,
    arch VARCHAR NOT NULL,
    fact VARCHAR NOT NULL,
    value DOUBLE,
    unit VARCHAR,
    source VARCHAR
);

-- Which row of gpu_specs a printed device name means. Names without vendor words, case and punctuation (kerneldb.gpus).
CREATE TABLE gpu_names (
    printed VARCHAR NOT NULL,
    name VARCHAR NOT NULL
);

CREATE TABLE tensile_tokens (
    token VARCHAR NOT NULL,
    parameter VARCHAR,
    kind VARCHAR,
    meaning VARCHAR NOT NULL,
    source VARCHAR
);

CREATE TABLE bound_rules (
    rule VARCHAR NOT NULL,
    version INTEGER NOT NULL,
    parameter VARCHAR NOT NULL,
    value DOUBLE,
    unit VARCHAR,
    meaning VARCHAR,
    source VARCHAR
);

CREATE TABLE metric_aliases (
    metric VARCHAR NOT NULL,
    alias VARCHAR NOT NULL,
    tool VARCHAR,
    unit VARCHAR,
    meaning VARCHAR,
    source VARCHAR
);
