-- The tensors of operator calls, where an Execution Trace was recorded beside the trace.
--
-- Storages have the ids of the Execution Trace, which are recycled: one id may be several allocations after another.
CREATE TABLE op_tensors (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    op_id BIGINT NOT NULL,  -- The operator call, in ops.
    inputs VARCHAR,  -- Per argument null, a tensor [storage, offset, dims, strides, dtype, device] or a list of them, JSON.
    outputs VARCHAR  -- The tensors that it returned, JSON.
);
