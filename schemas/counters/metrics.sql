-- Measured metrics of a launch or range.
CREATE TABLE metrics (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    launch_index BIGINT,  -- Launch, in launches; NULL for metrics of a range, or of a kernel as a whole.
    range_id BIGINT,  -- Range that was profiled as a whole, in ranges; NULL for metrics of a launch.
    metric VARCHAR NOT NULL,  -- Name of the metric.
    value DOUBLE,  -- Value in `unit`; NULL where it is text.
    text VARCHAR,  -- Value that is not a number, such as a name; NULL else.
    unit VARCHAR,  -- Base unit.
    precision DOUBLE,  -- Step of the last digit that the tool printed, in the base unit: how exact value is.
    instance VARCHAR,  -- Which part, where a metric has several: an instruction, a memory unit, min and max of a summary; NULL for the metric of the
    -- whole launch.
    pass INTEGER,  -- Number of the run of the kernel (pass) in which the profiler read it.
    signature_id VARCHAR,  -- Signature, where the source gives a value per kernel and not per launch.
    source_metric VARCHAR,  -- Name of the metric as the source prints it.
    section VARCHAR  -- Section or domain of the report that lists the metric.
);
