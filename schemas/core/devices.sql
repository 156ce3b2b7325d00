-- The GPUs of a trace, per process that named them.
CREATE TABLE devices (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    process VARCHAR,  -- Process that saw the device, as recorded.
    device INTEGER NOT NULL,  -- Index of the device in that process.
    vendor VARCHAR,  -- nvidia, amd, intel, ….
    name VARCHAR,  -- Product name.
    arch VARCHAR,  -- Architecture: sm_90, gfx942.
    multiprocessors INTEGER,  -- Number of SMs (NVIDIA), CUs (AMD).
    memory_bytes BIGINT,  -- [bytes] Device memory.
    warp_size INTEGER,  -- [threads] Threads per warp (wavefront).
    max_threads_per_multiprocessor INTEGER,  -- [threads] Resident threads per SM or CU.
    registers_per_multiprocessor INTEGER,  -- 32-bit registers per SM or CU.
    shared_bytes_per_multiprocessor BIGINT,  -- [bytes] Shared memory (LDS) per SM or CU.
    shared_bytes_per_block_optin BIGINT,  -- [bytes] Largest shared memory that a block may ask for.
    clock_mhz DOUBLE,  -- [MHz] Core clock as recorded.
    memory_clock_mhz DOUBLE,  -- [MHz] Memory clock as recorded.
    properties VARCHAR,  -- All recorded properties, as JSON.
    gpu VARCHAR  -- GPU that it is, as in gpu_specs; NULL where its name fits none for certain.
);
