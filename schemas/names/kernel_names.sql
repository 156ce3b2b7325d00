-- Distinct names of GPU activities, and what is read from them: category, family, library, operation, types, tile.
CREATE TABLE kernel_names (
    name_id VARCHAR NOT NULL,  -- Content id of the name as printed.
    name VARCHAR NOT NULL,  -- Name as the profiler printed it.
    kind VARCHAR NOT NULL,  -- kernel, memcpy or memset.
    demangled VARCHAR,  -- The name as C++ text.
    short_name VARCHAR,  -- The name without template arguments that say little, for tables.
    match_name VARCHAR,  -- The name in a spelling that all profilers share (no return type, no parameters, numbers in templates written one way), to
    -- find a kernel in several tools.
    category VARCHAR,  -- What the name says (signatures.category is what counts): GEMM, GEMV, ATTENTION, CONVOLUTION, ELEMENTWISE, REDUCTION, NORMALIZATION, SOFTMAX, CONCAT, INDEXING, SCAN_SORT, COPY,
    -- MEMCPY, MEMSET, COMMUNICATION, OPTIMIZER, RANDOM, FUSED (compiler-made) or OTHER.
    family VARCHAR,  -- Kernels of one template or naming scheme, such as nvjet.
    library VARCHAR,  -- Who wrote it: cuBLAS, PyTorch ATen, NCCL, Triton, ….
    operation VARCHAR,  -- What it computes: gemm, add, mean, …; for copies the direction.
    dtype VARCHAR,  -- Element type in the name of the input that is computed on.
    dtypes VARCHAR,  -- All element types in the name, joined by commas.
    name_arch VARCHAR,  -- Architecture in the name.
    tile_m INTEGER,  -- Rows of the output tile of one block, as the library counts them.
    tile_n INTEGER,  -- Columns of that tile.
    tile_k INTEGER,  -- Depth of one step along the summed dimension.
    pipeline_stages INTEGER,  -- Steps in flight (software pipeline).
    cluster VARCHAR,  -- Thread-block cluster, such as 2x1.
    layout VARCHAR,  -- Transposition of A and B (tn, nn, nt, tt); nhwc or nchw for convolutions.
    split_k BOOLEAN,  -- Whether the summed dimension is shared out among blocks.
    epilogue VARCHAR,  -- Work joined to the product: bias, relu, ….
    vector_width INTEGER,  -- Elements per thread or access.
    template VARCHAR,  -- Template number, such as that of a cuBLAS GEMV.
    head_dim INTEGER,  -- Head dimension of an attention kernel.
    direction VARCHAR,  -- forward or backward.
    decoded VARCHAR,  -- Everything else that was read from the name, as JSON.
    deriver_version INTEGER  -- Version of the decoder that filled the derived columns; `kerneldb db refresh` renews older rows.
);
