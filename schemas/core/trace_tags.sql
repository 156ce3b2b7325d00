-- Keys and values that users note on traces (precision, batch, …).
CREATE TABLE trace_tags (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    key VARCHAR NOT NULL,  -- The key.
    value VARCHAR  -- The value.
);
