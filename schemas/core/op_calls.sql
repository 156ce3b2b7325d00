-- Distinct calls of operators with their inputs, as the profiler recorded them.
CREATE TABLE op_calls (
    call_id VARCHAR NOT NULL,  -- Content id of the call: operator, dims, strides, dtypes, scalars, extra.
    op VARCHAR NOT NULL,  -- Operator, such as aten::mm.
    input_dims VARCHAR,  -- Shapes of the inputs, as recorded (JSON).
    input_strides VARCHAR,  -- Strides of the inputs, as recorded (JSON).
    input_dtypes VARCHAR,  -- Element types of the inputs, as recorded (JSON).
    scalars VARCHAR,  -- Concrete scalar inputs, as recorded (JSON).
    extra VARCHAR  -- What else makes calls different (Triton kernel and constants; collective), as JSON.
);
