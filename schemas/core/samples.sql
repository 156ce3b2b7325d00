-- Counters over time: power, memory, utilisation, ….
CREATE TABLE samples (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    counter VARCHAR NOT NULL,  -- Name of the counter, as recorded.
    process VARCHAR,  -- Process, as recorded.
    device INTEGER,  -- Index of the device.
    ts_ns BIGINT,  -- [ns] Time, relative to base_ns of the trace.
    value DOUBLE,  -- Value, in `unit`.
    unit VARCHAR  -- Unit of the value.
);
