-- Process groups of a distributed run.
CREATE TABLE process_groups (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    group_name VARCHAR,  -- Name of the group.
    description VARCHAR,  -- Description of the group.
    backend VARCHAR,  -- nccl, gloo, ….
    group_size INTEGER,  -- Number of ranks.
    ranks VARCHAR  -- The ranks, as JSON list.
);
