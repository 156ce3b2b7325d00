-- Facts of traces that were skipped before: sums over calls.
CREATE TABLE call_sums (
    trace_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    n BIGINT NOT NULL,
    total_ns BIGINT,
    min_ns BIGINT,
    max_ns BIGINT,
    deviation_ns DOUBLE
);
