-- Annotations, steps, Python frames and other spans.
CREATE TABLE ranges (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    range_id BIGINT NOT NULL,  -- Number of the span in its trace.
    kind VARCHAR NOT NULL,  -- Kind of span, such as user_annotation, gpu_user_annotation, python_function.
    name VARCHAR NOT NULL,  -- Its text.
    process VARCHAR,  -- Process, as recorded.
    thread VARCHAR,  -- Thread, as recorded.
    device INTEGER,  -- Device of a span on the GPU.
    stream BIGINT,  -- Stream of a span on the GPU.
    start_ns BIGINT,  -- [ns] Start, relative to base_ns of the trace.
    duration_ns BIGINT,  -- [ns] Duration.
    parent_id BIGINT,  -- Enclosing span.
    depth INTEGER,  -- Number of enclosing spans.
    path VARCHAR,  -- Names of all enclosing spans and its own, from the outermost.
    finished BOOLEAN,  -- False where the recording ended before the span.
    details VARCHAR  -- Other arguments, as JSON.
);
