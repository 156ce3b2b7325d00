-- The balance of `reconciliation` as a list, one row per component, with its interval, where it comes from, or why it is unknown.
CREATE TABLE reconciliation_components (
    trace VARCHAR NOT NULL,  -- Name of the trace of the workload and mode.
    workload VARCHAR NOT NULL,  -- prefill, decode, train_step or script.
    mode VARCHAR,  -- eager or cuda_graph.
    section VARCHAR NOT NULL,  -- time, energy, or dynamic energy.
    component VARCHAR NOT NULL,  -- The component, total or error.
    role VARCHAR NOT NULL,  -- What the row is in the balance: addend; addend, not replayed; addend, observed; total; measured; measured, other;
    -- error; share; clock.
    status VARCHAR NOT NULL,  -- How far to trust it: predicted, lower bound, recorded, estimate, observed, measured, valid or withheld (errors), left
    -- out, unknown.
    value DOUBLE,  -- The value per iteration, in unit.
    unit VARCHAR NOT NULL,  -- Its unit.
    low DOUBLE,  -- Lower end of the 95 % interval.
    high DOUBLE,  -- Upper end of the 95 % interval.
    source VARCHAR,  -- Where it comes from.
    note VARCHAR  -- In what sense it is a bound, or why the value is unknown.
);
