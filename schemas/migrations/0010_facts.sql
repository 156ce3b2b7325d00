-- Category and element type by which kernels are summed are those of a signature: its operator knows what a name may not. What names say comes
-- first; `kerneldb db refresh` asks the operators.
ALTER TABLE signatures ADD COLUMN category VARCHAR;
ALTER TABLE signatures ADD COLUMN category_source VARCHAR;
ALTER TABLE signatures ADD COLUMN dtype VARCHAR;
ALTER TABLE signatures ADD COLUMN dtype_source VARCHAR;
UPDATE signatures SET
    category = k.category,
    category_source = CASE WHEN k.category <> 'OTHER' THEN 'name' END,
    dtype = k.dtype,
    dtype_source = CASE WHEN k.dtype IS NOT NULL THEN 'name' END
FROM kernel_names AS k
WHERE signatures.name_id = k.name_id;
-- Facts of traces that were skipped before: synchronisation, samples of the CPU, kinds of memory.
CREATE TABLE sync_events (
    trace_id VARCHAR NOT NULL,
    sync_index BIGINT NOT NULL,
    kind VARCHAR NOT NULL,
    name VARCHAR,
    process VARCHAR,
    thread VARCHAR,
    device INTEGER,
    context BIGINT,
    stream BIGINT,
    start_ns BIGINT,
    duration_ns BIGINT,
    correlation_id BIGINT,
    event_id BIGINT,
    waits_on_stream BIGINT,
    waits_on_correlation_id BIGINT,
    details VARCHAR
);
CREATE TABLE cpu_samples (
    trace_id VARCHAR NOT NULL,
    sample_index BIGINT NOT NULL,
    process VARCHAR,
    thread VARCHAR,
    cpu INTEGER,
    ts_ns BIGINT,
    state VARCHAR,
    function VARCHAR,
    stack VARCHAR,
    cycles BIGINT
);
ALTER TABLE memory_events ADD COLUMN memory_kind VARCHAR;
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
ALTER TABLE ops ADD COLUMN details VARCHAR;
ALTER TABLE launches ADD COLUMN warps_per_multiprocessor DOUBLE;
-- Facts of profilers that versions up to 0.1.0 left out.
CREATE TABLE source_counters (
    trace_id VARCHAR NOT NULL,
    launch_index BIGINT,
    kernel_index BIGINT NOT NULL,
    kernel VARCHAR,
    level VARCHAR NOT NULL,
    file VARCHAR,
    line BIGINT,
    instruction BIGINT,
    address BIGINT,
    text VARCHAR,
    metric VARCHAR NOT NULL,
    value DOUBLE
);
