-- Measured metrics of a launch or range.
CREATE TABLE metrics (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    launch_index BIGINT,  -- Launch, in launches.
    range_id BIGINT,  -- Range, in ranges.
    metric VARCHAR NOT NULL,  -- Name of the metric.
    value DOUBLE,  -- Value in the base unit, where it is a number.
    text VARCHAR,  -- Value, where it is not a number.
    unit VARCHAR,  -- Base unit.
    precision DOUBLE,  -- Last digit that the tool printed, in the base unit.
    instance VARCHAR,  -- Instance of the metric.
    pass INTEGER,  -- Pass of the profiler.
    signature_id VARCHAR,  -- Signature, where the source gives a value per kernel and not per launch.
    source_metric VARCHAR,  -- Name of the metric as the source prints it.
    section VARCHAR  -- Section or domain of the report that lists the metric.
);
