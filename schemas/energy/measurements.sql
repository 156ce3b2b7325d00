-- Whole-model measurements, taken without a profiler: one row per workload, mode, repetition and quantity.
CREATE TABLE measurements (
    trace_id VARCHAR,  -- Trace of the same model, workload and settings.
    run VARCHAR,  -- Run, as in traces.
    model VARCHAR,  -- Model.
    workload VARCHAR NOT NULL,  -- prefill, decode, train_step or script.
    mode VARCHAR,  -- eager or cuda_graph.
    repetition INTEGER,  -- Number of the repetition; NULL for a figure over all of them.
    quantity VARCHAR NOT NULL,  -- What was measured, for example wall_ns or energy_mj.
    value DOUBLE,  -- The value, in unit.
    low DOUBLE,  -- Lower end of the 95 % interval.
    high DOUBLE,  -- Upper end of the 95 % interval.
    unit VARCHAR,  -- Unit of value.
    n BIGINT,  -- How many iterations value is the mean of.
    method VARCHAR,  -- How it was measured.
    reason VARCHAR,  -- Why the value is unknown.
    measured_at TIMESTAMP,  -- [UTC] When.
    uuid VARCHAR  -- Which board it was measured on.
);
