-- Calls on the host: of the runtime and the driver, and of other libraries that the profiler traced.
CREATE TABLE api_calls (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    api_index BIGINT NOT NULL,  -- Number of the call in its trace.
    kind VARCHAR NOT NULL,  -- Library: cuda_runtime, cuda_driver, hip, osrt (the operating system), cudnn, cublas, mpi, …, as the tool calls it.
    name VARCHAR NOT NULL,  -- Name of the call.
    process VARCHAR,  -- Process, as recorded.
    thread VARCHAR,  -- Thread, as recorded.
    start_ns BIGINT,  -- [ns] Start, relative to base_ns of the trace.
    duration_ns BIGINT,  -- [ns] Duration.
    correlation_id BIGINT,  -- Number by which the tool links the call with the GPU activity that it launched.
    external_id BIGINT,  -- Id by which the profiler links the call with an operator (External id of PyTorch).
    op_id BIGINT,  -- Operator around it, in ops.
    range_id BIGINT,  -- Innermost annotation around it, in ranges.
    bytes BIGINT,  -- [bytes] Bytes of a copy, fill or allocation.
    details VARCHAR  -- Other arguments; of a launching call on ROCm, the kernel.
);
