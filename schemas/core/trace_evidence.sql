-- What a trace is recognised by when others come: a few launches, sums, and the collectives of its process groups.
CREATE TABLE trace_evidence (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    kind VARCHAR NOT NULL,  -- launch, sums, pass, group, collective (three that follow each other) or sequence (of the collectives of a group).
    key VARCHAR,  -- Kind of activity, process group, or folder of counter passes.
    detail VARCHAR,  -- Hash of names or of a sequence; ranks of a group; kind, type and size of a collective.
    n BIGINT,  -- Number of launches; number of a counter pass.
    first_ns BIGINT,  -- [ns] Start of a launch; sum of durations; end of the first collective (host clock).
    last_ns BIGINT,  -- [ns] Duration of a launch; place of a report (0 launches, 1 per launch configuration, 2 per name); end of the last collective.
    min_ns BIGINT,  -- [ns] Shortest duration in the sums.
    max_ns BIGINT,  -- [ns] Longest duration in the sums.
    tolerance_ns BIGINT  -- [ns] How far off a sum may be for digits that were not printed; NULL for none.
);
