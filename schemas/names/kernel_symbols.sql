-- Kernel symbols of the loaded code objects, launched or not.
CREATE TABLE kernel_symbols (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace that loaded the code object, in traces.
    symbol_id BIGINT,  -- Number of the symbol in the source.
    code_object_id BIGINT,  -- Number of the code object that holds it.
    process VARCHAR,  -- Process that loaded it.
    name_id VARCHAR NOT NULL,  -- Name, in kernel_names.
    symbol VARCHAR NOT NULL,  -- Symbol as the source prints it.
    launches BIGINT,  -- How often it was launched in the trace.
    static_shared_bytes BIGINT,  -- [bytes] Shared memory (LDS) of the code, without what a launch adds.
    scratch_bytes BIGINT,  -- [bytes] Private memory per thread.
    kernarg_bytes BIGINT,  -- [bytes] Size of the arguments.
    registers_reported INTEGER,  -- Vector registers per thread as reported.
    agprs_reported INTEGER,  -- Accumulation registers per thread as reported.
    sgprs_reported INTEGER,  -- Scalar registers per wave as reported.
    target VARCHAR  -- Architecture that the code is for.
);
