-- Replayed operator calls: one row per run, item of its plan and cache state.
CREATE TABLE replay_calls (
    run_id VARCHAR NOT NULL,  -- The run.
    item_id VARCHAR NOT NULL,  -- The item of the plan: a call with the kernels that it launched.
    call_id VARCHAR,  -- The recorded call, in op_calls.
    op VARCHAR,  -- Its operator.
    route VARCHAR,  -- How it was replayed: a route of replay_routes, or none.
    cache VARCHAR,  -- State of the L2: cold, warm or mixed.
    status VARCHAR,  -- ok, failed, or skipped (not attempted).
    grade VARCHAR,  -- The worst grade of its kernels.
    reason VARCHAR,  -- Why the grade is not L0.
    overload VARCHAR,  -- The operator overload that ran.
    notes VARCHAR,  -- What was assumed of the inputs, JSON.
    attempts INTEGER,  -- How many ways to rebuild the call were tried.
    warmup INTEGER,  -- Calls before the timed ones.
    runs INTEGER,  -- Timed calls.
    wall_s DOUBLE,  -- [s] Time spent on the item.
    time_ns DOUBLE,  -- [ns] Median GPU time of the call, all its activities (CUPTI); on a CPU its wall time.
    time_mad_ns DOUBLE,  -- [ns] Median absolute deviation of that time over the timed calls.
    time_low_ns DOUBLE,  -- [ns] Lower bound of the median, 95 % confidence.
    time_high_ns DOUBLE,  -- [ns] Upper bound of the median, 95 % confidence.
    loop_ns DOUBLE,  -- [ns] Median time per call in a CUDA graph that repeats it.
    loop_low_ns DOUBLE,  -- [ns] Lower bound of that median, 95 % confidence.
    loop_high_ns DOUBLE,  -- [ns] Upper bound of that median, 95 % confidence.
    loop_calls INTEGER,  -- Calls in that graph.
    loop_sets INTEGER,  -- How many different sets of inputs the graph uses in turn.
    loop_note VARCHAR,  -- Why the loop time is unknown.
    extra_kernels VARCHAR,  -- Activities that came out unplanned, JSON.
    missing_kernels VARCHAR,  -- Planned kernels that did not come out, JSON.
    clock_mhz INTEGER,  -- [MHz] Clock of the multiprocessors after the call.
    temperature_c INTEGER,  -- [°C] Temperature after the call.
    power_w DOUBLE,  -- [W] Power after the call.
    throttle VARCHAR,  -- Why clocks were held down, JSON.
    energy_mj DOUBLE,  -- [mJ] Energy of one call, with its share of the idle power of the board.
    energy_low_mj DOUBLE,  -- [mJ] Lower end of the 95 % interval of energy_mj.
    energy_high_mj DOUBLE,  -- [mJ] Upper end of the 95 % interval of energy_mj.
    dynamic_mj DOUBLE,  -- [mJ] Energy of one call above launch-loop power (launch_loop_power_w of the run).
    dynamic_low_mj DOUBLE,  -- [mJ] Lower end of the 95 % interval of dynamic_mj.
    dynamic_high_mj DOUBLE,  -- [mJ] Upper end of the 95 % interval of dynamic_mj.
    energy_power_w DOUBLE,  -- [W] Mean power while the call was repeated.
    energy_busy_share DOUBLE,  -- Share of that time in which a kernel ran.
    energy_seconds DOUBLE,  -- [s] Time between the counter steps that were used, all windows together.
    energy_windows INTEGER,  -- Number of stretches of time in which energy was measured.
    energy_method VARCHAR,  -- How energy was measured.
    energy_reason VARCHAR,  -- Why the energy is unknown.
    energy_sm_mhz DOUBLE,  -- [MHz] Clock of the multiprocessors in the windows.
    energy_throttle VARCHAR,  -- Why clocks were reduced in the windows.
    energy_details VARCHAR,  -- JSON: every window with its power, time per call, temperature, clocks and throttle reasons.
    dims_source VARCHAR,  -- Where the call comes from: op (recorded), inherited or inferred; NULL for copies and fills.
    confidence DOUBLE,  -- How sure a call that is not recorded is, 0 to 1.
    inferred_call_id VARCHAR,  -- The call that was found (op_calls).
    capped_mhz DOUBLE,  -- [MHz] Clock of a loop of the call that the power cap held down; NULL where it holds none.
    capped_stretch DOUBLE,  -- How many times as long the call takes at that clock.
    capped_dynamic_mj DOUBLE,  -- [mJ] Energy of one call above launch_loop_power_w at that clock.
    counters_reason VARCHAR  -- Why no hardware counters were read of the call, where they were asked for.
);
