-- Sums over calls and ranges of the host that the tool itself printed, without the single calls; sums over GPU work are in rollups.
CREATE TABLE call_sums (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    kind VARCHAR NOT NULL,  -- What is summed, as the name of the report says (hip, hsa, marker, domain, …), else api.
    name VARCHAR NOT NULL,  -- Name of the call, of the range, or (kind domain) of everything that was traced together.
    n BIGINT NOT NULL,  -- Number of calls.
    total_ns BIGINT,  -- [ns] Sum of durations.
    min_ns BIGINT,  -- [ns] Shortest duration.
    max_ns BIGINT,  -- [ns] Longest duration.
    deviation_ns DOUBLE  -- [ns] Standard deviation of the durations.
);
