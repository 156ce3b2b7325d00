-- Recorded steps that were replayed whole (`kerneldb replay --in-context`): one row per run, step and mode.
CREATE TABLE step_replays (
    run_id VARCHAR NOT NULL,  -- The run, in replay_runs.
    step_id VARCHAR NOT NULL,  -- The step of the plan.
    mode VARCHAR NOT NULL,  -- How it was run: eager, or cuda_graph.
    recorded_trace VARCHAR,  -- Content id of its trace, in traces.
    iteration VARCHAR,  -- Its iteration, as the trace names it.
    phase VARCHAR,  -- Its phase.
    recorded_as VARCHAR,  -- How it was recorded: eager, or cuda_graph.
    method VARCHAR,  -- Where the identity of memory comes from: execution trace (and memory events), or inferred from dims.
    calls_from VARCHAR,  -- Trace that its calls are from, where it was recorded as a CUDA graph and has none.
    calls INTEGER,  -- Calls of the step.
    rebuilt INTEGER,  -- Calls that ran on the same tensors as in the recorded step, shared as there.
    apart INTEGER,  -- Calls that ran on inputs made for them alone.
    filled INTEGER,  -- Calls that could not run: a wait of their recorded duration took their place.
    substituted INTEGER,  -- Tensors that were made for a call because those of the step did not fit it.
    unplanned INTEGER,  -- Recorded launches whose operator call is not known, which therefore did not run.
    recorded_span_ns BIGINT,  -- [ns] From the start of the first recorded kernel to the end of the last.
    recorded_busy_ns BIGINT,  -- [ns] Recorded time in which any kernel ran.
    unplanned_ns BIGINT,  -- [ns] Recorded time of launches without a call.
    again_span_ns BIGINT,  -- [ns] recorded_span_ns of another recorded iteration: how far two recorded ones lie apart.
    wall_ns DOUBLE,  -- [ns] Time of a step, without a profiler.
    wall_low_ns DOUBLE,  -- [ns] Lower end of its 95 % interval.
    wall_high_ns DOUBLE,  -- [ns] Upper end of its 95 % interval.
    energy_mj DOUBLE,  -- [mJ] Energy of a step, without a profiler.
    energy_low_mj DOUBLE,  -- [mJ] Lower end of its 95 % interval.
    energy_high_mj DOUBLE,  -- [mJ] Upper end of its 95 % interval.
    energy_reason VARCHAR,  -- Why the energy is unknown.
    segments INTEGER,  -- CUDA graphs that the step was captured as.
    uncaptured VARCHAR,  -- Operators that cannot be captured, between those graphs, JSON.
    memory_bytes BIGINT,  -- [bytes] Most memory that was in use.
    notes VARCHAR,  -- What was made in place of tensors of the step, JSON.
    reason VARCHAR,  -- Why the mode has no times.
    rank INTEGER,  -- Rank that ran it; NULL for a step of no distributed job.
    ranks INTEGER,  -- Ranks that ran it at once, with their collectives; 1: alone, and collectives of several ranks are stood in for.
    streams INTEGER  -- Streams that its calls ran on.
);
