-- Samples of threads on the CPU, each with its call stack.
CREATE TABLE cpu_samples (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    sample_index BIGINT NOT NULL,  -- Number of the sample in its trace, by time.
    process VARCHAR,  -- Process, as recorded.
    thread VARCHAR,  -- Thread, as recorded.
    cpu INTEGER,  -- Number of the CPU.
    ts_ns BIGINT,  -- [ns] Time, relative to base_ns of the trace.
    state VARCHAR,  -- State of the thread, such as Running.
    function VARCHAR,  -- Innermost function of the stack.
    stack VARCHAR,  -- Functions from the outermost to the innermost, with `;` between them. One without symbol is its library, as `[libc.so.6]`.
    cycles BIGINT  -- Cycles that the CPU counted for the sample.
);
