-- Facts of a name (name_id, name) and what the deriver of `deriver_version` reads from it (all other columns).
CREATE TABLE kernel_names (
    name_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    demangled VARCHAR,
    short_name VARCHAR,
    match_name VARCHAR,
    category VARCHAR,
    family VARCHAR,
    library VARCHAR,
    operation VARCHAR,
    dtype VARCHAR,
    dtypes VARCHAR,
    name_arch VARCHAR,
    tile_m INTEGER,
    tile_n INTEGER,
    tile_k INTEGER,
    stages INTEGER,
    cluster VARCHAR,
    layout VARCHAR,
    split_k BOOLEAN,
    epilogue VARCHAR,
    vector_width INTEGER,
    template VARCHAR,
    head_dim INTEGER,
    direction VARCHAR,
    decoded VARCHAR,
    deriver_version INTEGER
);

-- A distinct call of an operator as the profiler recorded it.
CREATE TABLE op_calls (
    call_id VARCHAR NOT NULL,
    op VARCHAR NOT NULL,
    input_dims VARCHAR,
    input_strides VARCHAR,
    input_dtypes VARCHAR,
    scalars VARCHAR,
    extra VARCHAR
);

-- Identity columns first; from `launch_key` on, derived ones.
CREATE TABLE signatures (
    signature_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    name_id VARCHAR NOT NULL,
    grid_x INTEGER,
    grid_y INTEGER,
    grid_z INTEGER,
    block_x INTEGER,
    block_y INTEGER,
    block_z INTEGER,
    bytes BIGINT,
    copy_kind VARCHAR,
    call_id VARCHAR,
    op VARCHAR,
    input_dims VARCHAR,
    input_strides VARCHAR,
    input_dtypes VARCHAR,
    scalars VARCHAR,
    level VARCHAR NOT NULL,
    total_blocks BIGINT,
    threads_per_block INTEGER,
    launch_key VARCHAR,
    gemm_m BIGINT,
    gemm_n BIGINT,
    gemm_k BIGINT,
    gemm_batch BIGINT,
    numel BIGINT,
    dims_source VARCHAR,
    flops DOUBLE,
    moved_bytes DOUBLE,
    work_method VARCHAR,
    deriver_version INTEGER
);

-- Code that a trace names, launched or not.
CREATE TABLE kernel_symbols (
    trace_id VARCHAR NOT NULL,
    symbol_id BIGINT,
    code_object_id BIGINT,
    process VARCHAR,
    name_id VARCHAR NOT NULL,
    symbol VARCHAR NOT NULL,
    launches BIGINT,
    static_shared_bytes BIGINT,
    scratch_bytes BIGINT,
    kernarg_bytes BIGINT,
    registers_reported INTEGER,
    agprs_reported INTEGER,
    sgprs_reported INTEGER,
    target VARCHAR
);

-- Source code of kernels, archived by the hash under which traces name it.
CREATE TABLE kernel_sources (
    kernel_hash VARCHAR NOT NULL,
    trace_id VARCHAR,
    name VARCHAR,
    language VARCHAR,
    origin VARCHAR,
    source VARCHAR,
    file VARCHAR,
    sha256 VARCHAR,
    archived_at TIMESTAMP
);
