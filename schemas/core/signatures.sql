-- Distinct kernels with launch shape and, where known, operator call.
--
-- Two launches of one signature did the same: same name, grid, block and call, or the same copy. The columns from `launch_key` on are derived from
-- the others. `category` and `dtype` are those by which everything is summed; what the name alone says is in kernel_names.
CREATE TABLE signatures (
    signature_id VARCHAR NOT NULL,  -- Content id: kind, name, grid, block, bytes, copy_kind, call_id.
    kind VARCHAR NOT NULL,  -- kernel, memcpy or memset.
    name_id VARCHAR NOT NULL,  -- Name, in kernel_names.
    grid_x INTEGER,  -- [blocks] Blocks (workgroups, never work-items) of the grid along x.
    grid_y INTEGER,  -- [blocks] Blocks of the grid along y.
    grid_z INTEGER,  -- [blocks] Blocks of the grid along z.
    block_x INTEGER,  -- [threads] Threads of a block along x.
    block_y INTEGER,  -- [threads] Threads of a block along y.
    block_z INTEGER,  -- [threads] Threads of a block along z.
    bytes BIGINT,  -- [bytes] Bytes copied or filled; NULL for kernels.
    copy_kind VARCHAR,  -- Direction of a copy: HtoD, DtoH, DtoD, HtoH or PtoP (between GPUs).
    call_id VARCHAR,  -- Operator call that launched it, in op_calls.
    op VARCHAR,  -- Operator that launched it, such as aten::mm; NULL where none was recorded.
    input_dims VARCHAR,  -- Shapes of the operator's inputs (JSON).
    input_strides VARCHAR,  -- Strides of the operator's inputs (JSON).
    input_dtypes VARCHAR,  -- Element types of the operator's inputs (JSON).
    scalars VARCHAR,  -- Scalar inputs of the operator (JSON).
    level VARCHAR NOT NULL,  -- What the signature is made of: call (name, grid, block, and the operator call with its inputs), launch (without the
    -- call), total (only how many blocks and threads), or name.
    total_blocks BIGINT,  -- [blocks] Blocks of the grid.
    threads_per_block INTEGER,  -- [threads] Threads of a block.
    launch_key VARCHAR,  -- Hash of match_name, total_blocks and threads_per_block, by which launches of different tools are matched.
    gemm_m BIGINT,  -- Of a matrix product of M×K by K×N: M, the rows of the result. NULL where the operator is not a product, or its sizes are not
    -- known.
    gemm_n BIGINT,  -- N, the columns of the result.
    gemm_k BIGINT,  -- K, the dimension that is summed over.
    gemm_batch BIGINT,  -- How many such products one launch computes.
    numel BIGINT,  -- [elements] Elements that the kernel works on.
    dims_source VARCHAR,  -- Where the problem size comes from: op (exact), bound (upper bound from the launch), inferred, user.
    flops DOUBLE,  -- [FLOP] Floating-point operations of one launch; a multiply-add counts as two.
    moved_bytes DOUBLE,  -- [bytes] Bytes that one launch has to read from and write to memory: each input once, each output once.
    work_method VARCHAR,  -- How flops and moved_bytes were found, in words, such as memcpy read + write; NULL where they are not known.
    deriver_version INTEGER,  -- Sum of the versions of the decoder and of the work models that filled the derived columns.
    category VARCHAR,  -- What kind of work the kernel does, one of the words of kernel_names.category.
    category_source VARCHAR,  -- Where category comes from: name, or operator where the name is not known, a guess, or contradicts it; NULL for OTHER.
    dtype VARCHAR,  -- Element type of the input that is computed on, such as bf16.
    dtype_source VARCHAR  -- Where dtype comes from: name, or inputs (those of the operator) where the name does not say, or contradicts them.
);
