-- Where the history of a series changed for good: one row per change of a kernel, operator, module, cause of wall time, total or energy.
--
-- Found by `kerneldb history`, when a run is ingested. `cause` says what explains the change; only `code` and `launches` are the program's.
CREATE TABLE history_changes (
    trace_id VARCHAR NOT NULL,  -- Content id of the first run after the change, in history_runs.
    before_trace_id VARCHAR NOT NULL,  -- Content id of the last run before it.
    series_id VARCHAR NOT NULL,  -- The series, in history_runs.
    subject VARCHAR NOT NULL,  -- What changed: kernel, operator, module, budget (a cause of wall time), total, energy, measured (without a profiler),
    -- or clocks: the shift that all kernels have in common.
    name VARCHAR NOT NULL,  -- Which one of them, as in history_rollups.
    first_commit VARCHAR NOT NULL,  -- Last commit that is surely before the change: the range is first_commit..last_commit.
    last_commit VARCHAR NOT NULL,  -- First commit that surely has it.
    before_value DOUBLE NOT NULL,  -- Mean of history_rollups.value over the runs before it, back to the change before.
    after_value DOUBLE NOT NULL,  -- The same over the runs after it, up to the next change.
    change_pct DOUBLE NOT NULL,  -- [%] The change of the value, without the shift that all kernels of a run have in common.
    low_pct DOUBLE NOT NULL,  -- [%] Lower end of its 95 % interval.
    high_pct DOUBLE NOT NULL,  -- [%] Upper end of that interval.
    impact_ns DOUBLE,  -- [ns] What it adds to the time of an iteration; NULL for energy and for what was measured without a profiler.
    p_value DOUBLE NOT NULL,  -- Probability that noise alone makes such a change anywhere in the history, corrected for all series in it, at least
    -- 1,000 (Bonferroni).
    runs_before INTEGER NOT NULL,  -- Runs that before_value is the mean of.
    runs_after INTEGER NOT NULL,  -- Runs that after_value is the mean of.
    noise_pct DOUBLE NOT NULL,  -- [%] Standard deviation of the value from run to run.
    cause VARCHAR NOT NULL,  -- code, launches (another number of them), clocks, driver, software (versions), machine (host or board), or same commit.
    detail VARCHAR  -- What else changed there, in words.
);
