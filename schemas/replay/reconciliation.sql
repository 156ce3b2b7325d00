-- What replayed kernels predict against what was measured whole, per trace, workload and mode, in components that add up. Figures are per iteration.
--
-- The rows of this table and of reconciliation_components, reconciliation_kernels and reconciliation_jobs are those of `kerneldb.reconciliation`. kerneldb writes them anew whenever it
-- changes measurements, traces or replays, by itself or by `query --write`; after other programs did, `kerneldb db refresh` does.
CREATE TABLE reconciliation (
    trace VARCHAR NOT NULL,  -- Name of the trace of the workload and mode.
    run VARCHAR,  -- Run that was measured.
    model VARCHAR,  -- Model that was measured.
    workload VARCHAR NOT NULL,  -- prefill, decode, train_step or script.
    mode VARCHAR,  -- eager or cuda_graph.
    gpu VARCHAR,  -- Name of the GPU.
    kernels_trace VARCHAR,  -- Trace whose kernels these are; that of the eager mode where CUDA graphs hide the operators.
    status VARCHAR NOT NULL,  -- GPU bound (busy for 80 % of the measured time or more), host bound, unmeasured (no wall time), or unknown (how long
    -- collectives waited for other ranks).
    iterations BIGINT NOT NULL,  -- Iterations in that trace.
    signatures BIGINT NOT NULL,  -- Signatures of the workload.
    n DOUBLE NOT NULL,  -- Launches per iteration.
    replayed_launches_pct DOUBLE,  -- [%] Share of the launches with a replay that counts (L0, L1).
    replayed_time_pct DOUBLE,  -- [%] Their share of the recorded time.
    caches VARCHAR,  -- States of the L2 cache in the replays.
    recorded_ns DOUBLE,  -- [ns] Recorded time of all launches of an iteration, summed.
    compared_ns DOUBLE,  -- [ns] The part of it with a replay.
    kernels_ns DOUBLE,  -- [ns] Component: launches with a replay, times their replayed durations.
    kernels_half_ns DOUBLE,  -- [ns] Half width of its 95 % interval; errors of signatures count as independent.
    inherited_ns DOUBLE,  -- [ns] Part of kernels_ns: replays of inherited calls.
    inferred_ns DOUBLE,  -- [ns] Part of kernels_ns: replays of inferred calls.
    clock_ns DOUBLE,  -- [ns] Component: what kernels that the power cap slows down take longer at the clock of the model.
    overlap_ns DOUBLE,  -- [ns] Component (to subtract): the part of kernels_ns that runs beside other launches, by the share in the trace.
    gap_ns DOUBLE,  -- [ns] Time between two kernels that follow each other in a full queue.
    gap_source VARCHAR,  -- Where it comes from: the trace, or a replay run.
    gap_launches DOUBLE,  -- Launches per iteration that begin when nothing else runs.
    gaps_ns DOUBLE,  -- [ns] Component: what starting launches one after another costs, gap_launches times gap_ns.
    idle_ns DOUBLE,  -- [ns] Component: longer waits from node to node of a CUDA graph, beyond gap_ns; NULL without graphs, as the profiler slows the host.
    unreplayed_ns DOUBLE,  -- [ns] Recorded time of the launches without a replay.
    rest_ns DOUBLE,  -- [ns] Component: the same less its overlap.
    predicted_busy_ns DOUBLE,  -- [ns] kernels_ns + clock_ns - overlap_ns + rest_ns.
    predicted_replayed_ns DOUBLE,  -- [ns] Predicted wall time of replayed kernels only: predicted_ns - rest_ns.
    predicted_ns DOUBLE,  -- [ns] Predicted wall time, if the GPU never waits for the host: predicted_busy_ns + gaps_ns + idle_ns.
    predicted_low_ns DOUBLE,  -- [ns] Lower end of its 95 % interval, from the replays alone; NULL where they are less than 80 % of the recorded time.
    predicted_high_ns DOUBLE,  -- [ns] Upper end of its 95 % interval.
    waiting_ns DOUBLE,  -- [ns] Observed component, in host-bound workloads only: wall_ns - predicted_ns.
    wall_ns DOUBLE,  -- [ns] Measured wall time, without profiler.
    wall_low_ns DOUBLE,  -- [ns] Lower end of its 95 % interval.
    wall_high_ns DOUBLE,  -- [ns] Upper end of its 95 % interval.
    wall_method VARCHAR,  -- How it was measured.
    kernels_error_pct DOUBLE,  -- [%] Replayed against recorded time of the launches with a replay.
    replayed_error_pct DOUBLE,  -- [%] predicted_replayed_ns against wall_ns; NULL where error_reason says why.
    error_pct DOUBLE,  -- [%] predicted_ns against wall_ns; NULL where error_reason says why.
    error_reason VARCHAR,  -- Why the error of the time is NULL.
    measured_busy_ns DOUBLE,  -- [ns] Measured time in which the GPU ran anything.
    busy_share_pct DOUBLE,  -- [%] That, or else predicted_busy_ns, over wall_ns.
    model_mhz DOUBLE,  -- [MHz] Clock of the multiprocessors while the model was measured.
    replay_mhz DOUBLE,  -- [MHz] The same while kernels were timed in replays, weighted with their time.
    energy_mhz DOUBLE,  -- [MHz] The same while their energy was measured.
    energy_run_id VARCHAR,  -- Replay run that measured the energy of most of the kernel time; launch-loop power is from it.
    board VARCHAR,  -- Board that the model was measured on.
    energy_board VARCHAR,  -- Board that the energy of the kernels was measured on.
    launch_loop_power_w DOUBLE,  -- [W] Power of the GPU while its queue is full of empty kernels.
    launch_loop_power_error_w DOUBLE,  -- [W] Half width of its 95 % interval.
    context_power_w DOUBLE,  -- [W] Power of the GPU with a context and an empty queue.
    dynamic_mj DOUBLE,  -- [mJ] Component: launches times their dynamic energy.
    dynamic_half_mj DOUBLE,  -- [mJ] Half width of its 95 % interval.
    inherited_mj DOUBLE,  -- [mJ] Part of dynamic_mj: replays of inherited calls.
    inferred_mj DOUBLE,  -- [mJ] Part of dynamic_mj: replays of inferred calls.
    clock_mj DOUBLE,  -- [mJ] Component: what kernels that the power cap slows down cost more at the clock of the model; below 0, as it is less.
    powered_time_pct DOUBLE,  -- [%] Share of the kernel time whose energy is known.
    unpowered_mj DOUBLE,  -- [mJ] Component: an estimate of the rest, at the mean dynamic power of what is known.
    gap_mj DOUBLE,  -- [mJ] Component: launch_loop_power_w for predicted_ns.
    gap_half_mj DOUBLE,  -- [mJ] Half width of its 95 % interval.
    waiting_mj DOUBLE,  -- [mJ] Component: context_power_w (launch_loop_power_w where unknown) for waiting_ns; 0 where the GPU does not wait.
    predicted_replayed_mj DOUBLE,  -- [mJ] Predicted energy without unpowered_mj.
    predicted_mj DOUBLE,  -- [mJ] Predicted energy: dynamic_mj + clock_mj + unpowered_mj + gap_mj + waiting_mj.
    predicted_low_mj DOUBLE,  -- [mJ] Lower end of its 95 % interval.
    predicted_high_mj DOUBLE,  -- [mJ] Upper end of its 95 % interval.
    energy_mj DOUBLE,  -- [mJ] Measured energy.
    energy_low_mj DOUBLE,  -- [mJ] Lower end of its 95 % interval.
    energy_high_mj DOUBLE,  -- [mJ] Upper end of its 95 % interval.
    energy_method VARCHAR,  -- How it was measured.
    energy_replayed_error_pct DOUBLE,  -- [%] predicted_replayed_mj against energy_mj; NULL where energy_error_reason says why.
    energy_error_pct DOUBLE,  -- [%] predicted_mj against energy_mj; NULL where energy_error_reason says why.
    energy_error_reason VARCHAR,  -- Why the error of the energy is NULL.
    dynamic_all_mj DOUBLE,  -- [mJ] dynamic_mj + clock_mj + unpowered_mj.
    dynamic_measured_mj DOUBLE,  -- [mJ] Measured dynamic energy: energy_mj less launch_loop_power_w for wall_ns.
    dynamic_measured_half_mj DOUBLE,  -- [mJ] Half width of its 95 % interval.
    dynamic_error_pct DOUBLE,  -- [%] dynamic_all_mj against dynamic_measured_mj; NULL where dynamic_reason says why.
    above_waiting_measured_mj DOUBLE,  -- [mJ] In host-bound workloads: energy_mj less launch_loop_power_w for predicted_ns and context_power_w for waiting_ns.
    above_waiting_error_pct DOUBLE,  -- [%] dynamic_all_mj against above_waiting_measured_mj.
    dynamic_reason VARCHAR,  -- Why the error of the dynamic energy is NULL.
    time_reason VARCHAR,  -- What is wrong with the time of the prediction: several devices.
    exchanging BOOLEAN NOT NULL,  -- Whether it is a rank of several that exchange anything.
    collective_waits_ns DOUBLE  -- [ns] How long its collectives waited for other ranks under the profiler; NULL where that is not known.
);
