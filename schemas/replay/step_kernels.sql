-- Kernels of replayed steps, in their place: one row per run, step, mode and place in a call.
CREATE TABLE step_kernels (
    run_id VARCHAR NOT NULL,  -- The run, in replay_runs.
    step_id VARCHAR NOT NULL,  -- The step, in step_replays.
    mode VARCHAR NOT NULL,  -- How it was run: eager, or cuda_graph.
    item_id VARCHAR NOT NULL,  -- The item of the plan: a call with its kernels.
    ordinal INTEGER NOT NULL,  -- Position of the kernel in the call.
    signature_id VARCHAR NOT NULL,  -- The recorded signature.
    launches INTEGER,  -- Launches in the step.
    filled INTEGER,  -- Those of them that were stood in for by a wait.
    grade VARCHAR NOT NULL,  -- The worst grade of them: L0 same name, grid, block and shared memory; L1 same name; … L4 failed.
    reason VARCHAR,  -- Why it is not L0.
    recorded_ns BIGINT,  -- [ns] Their recorded durations, summed.
    again_ns BIGINT,  -- [ns] Those of the same signature in another recorded iteration, summed over all places of it.
    runs INTEGER,  -- Replayed steps.
    replay_ns DOUBLE,  -- [ns] Their replayed durations, summed: the median of the steps.
    low_ns DOUBLE,  -- [ns] Lower end of the 95 % interval of the median.
    high_ns DOUBLE,  -- [ns] Upper end of the 95 % interval of the median.
    close_ns BIGINT,  -- [ns] Recorded time of the launches whose median is within 10 %.
    agreement DOUBLE,  -- Replayed time over recorded time.
    agreement_low DOUBLE,  -- Lower end of its 95 % interval.
    agreement_high DOUBLE,  -- Upper end of its 95 % interval.
    disagrees BOOLEAN,  -- Whether the same kernel (L0 or L1) took more than 15 % and more than 1 us per launch longer or shorter: no headline sum has it.
    cause VARCHAR,  -- Why it disagrees, or has no time, as far as that is known.
    waited_ns BIGINT,  -- [ns] What collectives waited for other ranks when they were recorded, summed: recorded_ns has the transfer only. NULL where it is not known: recorded_ns has it, too.
    wait_ns DOUBLE  -- [ns] What they waited in the replay, the median of the steps; replay_ns has the transfer only.
);
