-- Rewrites that were tried in recorded steps (`kerneldb improve`): accepted, rejected and not tried, and all accepted ones together.
CREATE TABLE improvements (
    run_id VARCHAR NOT NULL,  -- The run of kerneldb improve.
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    iteration VARCHAR,  -- Its iteration, as the trace names it.
    device VARCHAR,  -- Where it was tried: cpu, or the name of a GPU.
    number INTEGER NOT NULL,  -- Place in the order in which the rewrites were tried, per run.
    rewrite VARCHAR NOT NULL,  -- Name of the rewrite; all accepted: the row of the accepted ones together.
    status VARCHAR NOT NULL,  -- accepted, rejected, not tried, or together.
    what VARCHAR,  -- What it is about: sizes, a function, a setting.
    place VARCHAR,  -- Function in which its calls are, as file:line and name, where the trace says so.
    places INTEGER,  -- In how many places of the step.
    calls INTEGER,  -- Calls of the step that it replaces.
    alone_before_ns DOUBLE,  -- [ns] Time of the calls at one of its places, run by themselves, as recorded.
    alone_after_ns DOUBLE,  -- [ns] Time of the calls at the same place, run by themselves, rewritten.
    alone_gain DOUBLE,  -- [fraction] Share of alone_before_ns that is saved, measured in turns.
    alone_gain_low DOUBLE,  -- [fraction] Lower end of its 95 % interval.
    alone_gain_high DOUBLE,  -- [fraction] Upper end of its 95 % interval.
    busy_before_ns DOUBLE,  -- [ns] Time of the step on the device, or of the process on a CPU, as recorded.
    busy_after_ns DOUBLE,  -- [ns] Time of the step on the device, or of the process on a CPU, rewritten.
    busy_gain DOUBLE,  -- [fraction] Share of busy_before_ns that is saved, measured in turns.
    busy_gain_low DOUBLE,  -- [fraction] Lower end of its 95 % interval.
    busy_gain_high DOUBLE,  -- [fraction] Upper end of its 95 % interval.
    wall_before_ns DOUBLE,  -- [ns] Wall time of the step, as recorded.
    wall_after_ns DOUBLE,  -- [ns] Wall time of the step, rewritten.
    wall_gain DOUBLE,  -- [fraction] Share of wall_before_ns that is saved, measured in turns.
    wall_gain_low DOUBLE,  -- [fraction] Lower end of its 95 % interval.
    wall_gain_high DOUBLE,  -- [fraction] Upper end of its 95 % interval.
    energy_before_mj DOUBLE,  -- [mJ] Energy of the step, as recorded.
    energy_after_mj DOUBLE,  -- [mJ] Energy of the step, rewritten.
    energy_gain DOUBLE,  -- [fraction] Share of energy_before_mj that is saved, measured in turns.
    energy_gain_low DOUBLE,  -- [fraction] Lower end of its 95 % interval.
    energy_gain_high DOUBLE,  -- [fraction] Upper end of its 95 % interval.
    error DOUBLE,  -- Error of the rewrite against float64 as a share of the output, the largest of root mean squares and of single elements over several distributions of values; NULL where no result was finite.
    error_before DOUBLE,  -- The same of the recorded calls.
    error_ratio DOUBLE,  -- Largest ratio of both (half of it for single elements): above 2 it is rejected, unless less precision is allowed and the error is below 0.001.
    reason VARCHAR,  -- Why it is rejected, or was not tried.
    wall_reason VARCHAR,  -- Why there is no wall time.
    energy_reason VARCHAR,  -- Why there is no energy.
    change VARCHAR  -- How the program is to be changed, JSON.
);
