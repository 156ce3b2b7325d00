-- Power, energy counter, clocks and temperature over time, while recording, while replaying, or from a log.
CREATE TABLE power_samples (
    trace_id VARCHAR,  -- Trace that the samples belong to.
    run_id VARCHAR,  -- Replay run that the samples belong to.
    source VARCHAR NOT NULL,  -- Where they come from: record, replay, log or trace.
    workload VARCHAR,  -- What was going on: a workload of record, or a phase of replay.
    device INTEGER,  -- Device number.
    gpu VARCHAR,  -- Name or UUID of the GPU as the source prints it.
    epoch_ns BIGINT,  -- [ns] Wall-clock time since 1970, UTC.
    ts_ns BIGINT,  -- [ns] The same relative to base_ns of the trace.
    power_w DOUBLE,  -- [W] Power of the board.
    energy_mj DOUBLE,  -- [mJ] Energy counter.
    memory_power_w DOUBLE,  -- [W] Power of the memory.
    sm_mhz DOUBLE,  -- [MHz] Clock of the multiprocessors.
    memory_mhz DOUBLE,  -- [MHz] Clock of the memory.
    temperature_c DOUBLE,  -- [°C] Temperature of the GPU.
    gpu_util_pct DOUBLE,  -- [%] Share of time in which a kernel ran.
    memory_util_pct DOUBLE,  -- [%] Share of time in which memory was read or written.
    throttle VARCHAR  -- Why clocks were reduced, comma-separated.
);
