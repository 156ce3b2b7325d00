-- Profiled launches that a better print holds, too, and which launch that is there: their metrics are those of one launch.
CREATE TABLE launch_prints (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    launch_index BIGINT NOT NULL,  -- Launch, in launches.
    primary_trace_id VARCHAR NOT NULL,  -- Content id of the trace that holds the launch with more digits or more counters.
    primary_launch_index BIGINT NOT NULL  -- The same launch there.
);
