-- Distinct kernels with launch shape and, where known, operator call.
--
-- Two launches of one signature did the same: same name, grid, block and call, or the same copy. The columns from `launch_key` on are derived from
-- the others. `category` and `dtype` are those by which everything is summed; what the name alone says is in kernel_names.
CREATE TABLE signatures (
    signature_id VARCHAR NOT NULL,  -- Content id: kind, name, grid, block, bytes, copy_kind, call_id.
    kind VARCHAR NOT NULL,  -- kernel, memcpy or memset.
    name_id VARCHAR NOT NULL,  -- Name, in kernel_names.
    grid_x INTEGER,  -- [blocks] Grid size (blocks or workgroups, never work-items).
    grid_y INTEGER,  -- [blocks] Grid size.
    grid_z INTEGER,  -- [blocks] Grid size.
    block_x INTEGER,  -- [threads] Block size.
    block_y INTEGER,  -- [threads] Block size.
    block_z INTEGER,  -- [threads] Block size.
    bytes BIGINT,  -- [bytes] Bytes copied or filled.
    copy_kind VARCHAR,  -- Direction of a copy: HtoD, DtoH, DtoD, HtoH, PtoP.
    call_id VARCHAR,  -- Operator call that launched it, in op_calls.
    op VARCHAR,  -- Operator that launched it.
    input_dims VARCHAR,  -- Shapes of the operator's inputs (JSON).
    input_strides VARCHAR,  -- Strides of the operator's inputs (JSON).
    input_dtypes VARCHAR,  -- Element types of the operator's inputs (JSON).
    scalars VARCHAR,  -- Scalar inputs of the operator (JSON).
    level VARCHAR NOT NULL,  -- How much is known: call (operator call with its inputs), launch (grid and block), total (products of them), name.
    total_blocks BIGINT,  -- [blocks] Blocks of the grid.
    threads_per_block INTEGER,  -- [threads] Threads of a block.
    launch_key VARCHAR,  -- Hash of match_name, total_blocks and threads_per_block: the same launch in other tools. Derived, not an identity.
    gemm_m BIGINT,  -- Rows of the product.
    gemm_n BIGINT,  -- Columns of the product.
    gemm_k BIGINT,  -- Summed dimension of the product.
    gemm_batch BIGINT,  -- Number of products.
    numel BIGINT,  -- [elements] Elements that the kernel works on.
    dims_source VARCHAR,  -- Where the problem size comes from: op (exact), bound (upper bound from the launch), inferred, user.
    flops DOUBLE,  -- [FLOP] Floating-point operations; a multiply-add counts as two.
    moved_bytes DOUBLE,  -- [bytes] Compulsory memory traffic: each input read once, each output written once.
    work_method VARCHAR,  -- How flops and moved_bytes were found.
    deriver_version INTEGER,  -- Sum of the versions of the decoder and of the work models that filled the derived columns.
    category VARCHAR,  -- What kind of work the kernel does, one of the words of kernel_names.category.
    category_source VARCHAR,  -- Where category comes from: name, or operator where the name is not known, a guess, or contradicts it; NULL for OTHER.
    dtype VARCHAR,  -- Element type of the input that is computed on.
    dtype_source VARCHAR  -- Where dtype comes from: name, or inputs (those of the operator) where the name does not say, or contradicts them.
);
