-- Replayed kernels: what came out for each recorded kernel of a call.
CREATE TABLE replays (
    run_id VARCHAR NOT NULL,  -- The run.
    item_id VARCHAR NOT NULL,  -- The item of the plan.
    ordinal INTEGER NOT NULL,  -- Position of the kernel in the call.
    signature_id VARCHAR NOT NULL,  -- The recorded signature.
    cache VARCHAR,  -- State of the L2: cold, warm or mixed.
    route VARCHAR,  -- How it was replayed: a route of replay_routes; none where no route claims it.
    grade VARCHAR NOT NULL,  -- L0 same name, grid, block and shared memory; L1 same name; L2 same family; L3 same operation; L4 failed or not
    -- attempted.
    reason VARCHAR,  -- Why it is not L0.
    share DOUBLE,  -- Share of the GPU time of the call, 0 to 1.
    runs INTEGER,  -- Timed runs.
    replay_ns DOUBLE,  -- [ns] Median duration (CUPTI).
    mean_ns DOUBLE,  -- [ns] Mean duration, which times the number of launches predicts the time of all.
    mad_ns DOUBLE,  -- [ns] Median absolute deviation.
    low_ns DOUBLE,  -- [ns] Lower bound of the median, 95 % confidence.
    high_ns DOUBLE,  -- [ns] Upper bound of the median, 95 % confidence.
    launches BIGINT,  -- Recorded launches of this signature that the result is for.
    recorded_ns BIGINT,  -- [ns] Median of their recorded durations.
    recorded_total_ns BIGINT,  -- [ns] Sum of their recorded durations.
    replayed_name VARCHAR,  -- Name of the kernel that came out.
    replayed_grid VARCHAR,  -- Its grid in blocks.
    replayed_block VARCHAR,  -- Its block in threads.
    replayed_shared_bytes BIGINT,  -- [bytes] Its shared memory.
    unknown_fields VARCHAR,  -- Launch fields that neither side records, JSON.
    energy_mj DOUBLE,  -- [mJ] Energy of one launch, with its share of the idle power of the board.
    energy_low_mj DOUBLE,  -- [mJ] Lower end of the 95 % interval of energy_mj.
    energy_high_mj DOUBLE,  -- [mJ] Upper end of the 95 % interval of energy_mj.
    dynamic_mj DOUBLE,  -- [mJ] Energy of one launch above launch-loop power (launch_loop_power_w of the run).
    dynamic_low_mj DOUBLE,  -- [mJ] Lower end of the 95 % interval of dynamic_mj.
    dynamic_high_mj DOUBLE,  -- [mJ] Upper end of the 95 % interval of dynamic_mj.
    energy_method VARCHAR,  -- How energy was measured, and how that of a call was shared among its kernels.
    energy_reason VARCHAR,  -- Why the energy is unknown.
    dims_source VARCHAR,  -- Where the replayed call comes from: op (recorded), inherited or inferred; NULL for copies and fills and where there is
    -- none.
    inferred_id VARCHAR  -- Signature with the call that was replayed, where that call is not recorded; signature_id is the recorded one.
);
