-- Kernels of replayed steps, in their place: one row per run, step, mode and place in a call.
CREATE TABLE step_kernels (
    run_id VARCHAR NOT NULL,  -- The run, in replay_runs.
    step_id VARCHAR NOT NULL,  -- The step, in step_replays.
    mode VARCHAR NOT NULL,  -- How it was run: eager, or cuda_graph.
    item_id VARCHAR NOT NULL,  -- The item of the plan: a call with its kernels.
    ordinal INTEGER NOT NULL,  -- Position of the kernel in the call.
    signature_id VARCHAR NOT NULL,  -- The recorded signature.
    launches INTEGER,  -- Launches in the step.
    filled INTEGER,  -- Launches among them that could not run: a wait of the recorded duration took their place.
    grade VARCHAR NOT NULL,  -- The worst grade of them: L0 same name, grid, block and shared memory; L1 same name; … L4 failed.
    reason VARCHAR,  -- Why it is not L0.
    recorded_ns BIGINT,  -- [ns] Their recorded durations, summed.
    again_ns BIGINT,  -- [ns] Recorded duration of the same signature in another iteration, summed over all its places: how far recorded durations lie
    -- apart.
    runs INTEGER,  -- Replayed steps.
    replay_ns DOUBLE,  -- [ns] Their replayed durations, summed: the median over the replayed steps.
    low_ns DOUBLE,  -- [ns] Lower end of the 95 % interval of the median.
    high_ns DOUBLE,  -- [ns] Upper end of the 95 % interval of the median.
    close_ns BIGINT,  -- [ns] Recorded time of those launches whose replayed median is within 10 % of it.
    agreement DOUBLE,  -- Replayed time over recorded time.
    agreement_low DOUBLE,  -- Lower end of its 95 % interval.
    agreement_high DOUBLE,  -- Upper end of its 95 % interval.
    disagrees BOOLEAN,  -- Whether the same kernel (L0 or L1) took more than 15 % and more than 1 µs per launch longer or shorter; sums that kerneldb
    -- replay shows first leave it out.
    cause VARCHAR,  -- Why it disagrees, or has no time, as far as that is known.
    waited_ns BIGINT,  -- [ns] What collectives waited for other ranks when they were recorded, summed: recorded_ns has the transfer only. NULL where it is not known: recorded_ns has it, too.
    wait_ns DOUBLE  -- [ns] What they waited in the replay, the median of the steps; replay_ns has the transfer only.
);
