-- The signatures of measured workloads, per iteration: recorded and replayed time, dynamic energy.
CREATE TABLE reconciliation_kernels (
    trace VARCHAR NOT NULL,  -- Name of the trace of the workload and mode.
    workload VARCHAR NOT NULL,  -- prefill, decode, train_step or script.
    mode VARCHAR,  -- eager or cuda_graph.
    signature_id VARCHAR NOT NULL,  -- The signature; of launches without a recorded call, the one with the call that was found, where that was
    -- replayed.
    kernel VARCHAR,  -- Short name, as in kernel_names.
    category VARCHAR,  -- Its category.
    tier INTEGER NOT NULL,  -- 1 copies and fills, 2 matrix products of a BLAS library, 3 all other kernels: the tiers of a three-tier replay.
    route VARCHAR NOT NULL,  -- How it was replayed; none where it never was; inherited or inferred where the launches have no call of their own.
    grade VARCHAR,  -- L0 or L1, where a replay counts.
    cache VARCHAR,  -- State of the L2 cache in the replay.
    n DOUBLE NOT NULL,  -- Launches per iteration.
    recorded_ns DOUBLE NOT NULL,  -- [ns] Recorded time per iteration; of collectives, without waits for other ranks.
    share_pct DOUBLE,  -- [%] Its share of the recorded time of the workload.
    replayed_ns DOUBLE,  -- [ns] The same launches at their replayed time.
    replayed_half_ns DOUBLE,  -- [ns] Half width of its 95 % interval.
    ratio DOUBLE,  -- Replayed over recorded time.
    dynamic_mj DOUBLE,  -- [mJ] Energy of these launches above launch-loop power.
    dynamic_half_mj DOUBLE,  -- [mJ] Half width of its 95 % interval.
    clock_ns DOUBLE,  -- [ns] What the lower clock of the model adds to replayed_ns; 0 where the power cap does not slow the kernel down.
    clock_mj DOUBLE,  -- [mJ] What the lower clock of the model adds to dynamic_mj; below 0 as a rule.
    reason VARCHAR,  -- Why no replay counts.
    energy_reason VARCHAR,  -- Why the energy is unknown.
    clock_mhz DOUBLE,  -- [MHz] Clock of the multiprocessors while it was timed in the replay.
    energy_mhz DOUBLE,  -- [MHz] The same while its energy was measured.
    energy_run_id VARCHAR,  -- Replay run that measured its energy.
    kernels_trace VARCHAR,  -- Trace whose kernels these are; that of the eager mode where CUDA graphs hide the operators.
    iterations BIGINT NOT NULL,  -- Iterations in that trace.
    wait_ns DOUBLE  -- [ns] How long its launches waited for other ranks per iteration; NULL where that is not known and for all others.
);
