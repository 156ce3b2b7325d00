-- Operator calls on the host.
CREATE TABLE ops (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    op_id BIGINT NOT NULL,  -- Number of the operator call in its trace.
    name VARCHAR NOT NULL,  -- Operator, such as aten::mm.
    call_id VARCHAR,  -- The call with its inputs, in op_calls.
    process VARCHAR,  -- Process, as recorded.
    thread VARCHAR,  -- Thread, as recorded.
    start_ns BIGINT,  -- [ns] Start, relative to base_ns of the trace.
    duration_ns BIGINT,  -- [ns] Duration.
    parent_id BIGINT,  -- Operator call that encloses it, in ops; NULL for an outermost one.
    depth INTEGER,  -- How many operator calls enclose it.
    range_id BIGINT,  -- Innermost annotation around it, in ranges.
    external_id BIGINT,  -- Id by which the profiler links the operator with calls and launches (External id of PyTorch).
    record_function_id BIGINT,  -- Id of the call in PyTorch's record_function, as recorded.
    sequence_number BIGINT,  -- Number by which autograd links a forward call with its backward calls.
    forward_thread BIGINT,  -- Thread of the forward call, of a backward one, as recorded.
    forward_op_id BIGINT,  -- Forward call of a backward one.
    module VARCHAR,  -- nn.Module around it, where recorded.
    python_line VARCHAR,  -- Innermost Python frame with a line around it, where recorded.
    call_stack VARCHAR,  -- Call stack, as recorded.
    recorded_flops DOUBLE,  -- [FLOP] FLOPs as the profiler counted them.
    details VARCHAR  -- What record_param_comms says of its collective beside sizes: splits, group, ranks, as JSON.
);
