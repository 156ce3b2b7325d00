-- One row per launch whose operator call was not recorded but inferred.
CREATE TABLE inferred_calls (
    trace_id VARCHAR NOT NULL,  -- Trace of the launch.
    launch_index BIGINT NOT NULL,  -- The launch, as in launches.
    signature_id VARCHAR NOT NULL,  -- Its signature as recorded.
    inferred_id VARCHAR NOT NULL,  -- Signature with the inferred call: of the same name, grid and block.
    inferred_by VARCHAR NOT NULL,  -- How the call was found: inherited or inferred.
    call_id VARCHAR,  -- The call (op_calls).
    call_ordinal INTEGER,  -- Which kernel of the call it is, from 0.
    call_kernels INTEGER,  -- How many kernels the call launches.
    call_launch BIGINT,  -- Launch index of the first kernel of the same call: equal for the kernels of one call.
    donor_trace_id VARCHAR,  -- Inherited: the trace that has the launch from which the call was taken.
    donor_launch_index BIGINT,  -- Inherited: that launch, as in launches.
    run_id VARCHAR,  -- Inferred: the replay run that tried the call, in replay_runs.
    item_id VARCHAR,  -- Inferred: the item of the plan of that run, in replay_calls.
    method VARCHAR,  -- What was compared: launch (name, grid, block and shared memory), launch key (name, blocks and threads), or name; with what
    -- decided among several calls: one call, neighbours, duration, order, majority; capture: the place in the recorded capture of a graph.
    confidence DOUBLE,  -- How sure the call is, 0 to 1: inherited, the share of launches found the same way whose recorded call it would have been;
    -- inferred, how well its replay agrees.
    alternatives INTEGER,  -- How many distinct calls launched such a kernel.
    evidence VARCHAR,  -- What speaks for the call, for people to read.
    found_at TIMESTAMP  -- When it was found, UTC.
);
