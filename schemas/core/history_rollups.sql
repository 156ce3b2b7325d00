-- What each recorded run took, by kernel, operator, module, cause of wall time and energy: the points of a history.
--
-- Of a trace with steady-state iterations, their launches only.
CREATE TABLE history_rollups (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in history_runs.
    subject VARCHAR NOT NULL,  -- kernel, operator, module, budget (a cause of wall time), total, energy or measured.
    name VARCHAR NOT NULL,  -- Which one: the short name of a kernel; part and cause of wall time.
    n BIGINT,  -- Number of launches, pieces or iterations.
    total_ns BIGINT,  -- [ns] Summed time; NULL of energy.
    value DOUBLE NOT NULL  -- What is compared: ns per launch of a kernel; ns per iteration of an operator, module, budget or total; mJ of energy; of
    -- what was measured without a profiler its own unit.
);
