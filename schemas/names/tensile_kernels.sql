-- What the names of Tensile and TensileLite kernels (rocBLAS, hipBLASLt) say: tile, matrix instruction, LDS, prefetch, split.
--
-- One row per name, the most asked parameters; `tensile_parameters` has all. The helper kernels that add up a split sum are here too (operation
-- splitK_reduce); they have no tile.
--
-- Columns:
--   name_id: as in kernels
--   name VARCHAR: Symbol as printed.
--   operation VARCHAR: gemm, or splitK_reduce of the helper that adds up a split sum: it has a split and a vector width, but no tile.
--   generator VARCHAR: Tensile (rocBLAS) or TensileLite (hipBLASLt).
--   layout VARCHAR: Transposition of A and B: nn, tn, nt or tt, column-major.
--   data_types VARCHAR: Element types as the name codes them: input, output and accumulator.
--   macro_tile_m INTEGER: Rows of C that one workgroup computes.
--   macro_tile_n INTEGER: Columns of C that one workgroup computes.
--   depth_u INTEGER: Elements of K per step of the loop.
--   activation_compute_type VARCHAR: Type in which the activation is computed, where the name says it (HAS: fp32).
--   matrix_instruction VARCHAR: Matrix instruction: M x N x K x blocks (TensileLite: M x N x blocks).
--   workgroup VARCHAR: Threads along M and N, and parts of K.
--   threads INTEGER: Threads per workgroup, from workgroup.
--   thread_tile VARCHAR: Elements of C per thread.
--   wave_tile VARCHAR: Matrix instructions per wave along M and N (TensileLite).
--   wave_size INTEGER: Threads per wave.
--   prefetch_global INTEGER: Steps ahead that tiles are read from global memory.
--   prefetch_local INTEGER: Iterations ahead that LDS is read.
--   schedule INTEGER: Scheduling algorithm of a step (ScheduleIterAlg).
--   single_lds_buffer BOOLEAN: Whether one LDS buffer serves all steps.
--   lds_bytes BIGINT [bytes]: LDS computed from the name; NULL where that cannot be computed (two buffers, tiles that bypass LDS).
--   lds_pad_a INTEGER [elements]: Padding of A in LDS.
--   lds_pad_b INTEGER [elements]: Padding of B in LDS.
--   lds_block_a_bytes INTEGER [bytes]: LDS of A after which a pad follows; 0: after each row.
--   lds_block_b_bytes INTEGER [bytes]: LDS of B after which a pad follows; 0: after each row.
--   global_read_width_a INTEGER [elements]: Elements of A per global read.
--   global_read_width_b INTEGER [elements]: Elements of B per global read.
--   local_read_width INTEGER [elements]: Elements per LDS read.
--   vector_width_a INTEGER [elements]: Contiguous elements of A (and C) per thread.
--   vector_width_b INTEGER [elements]: Contiguous elements of B per thread.
--   store_width INTEGER [elements]: Elements per store.
--   stagger_u INTEGER: Positions over which workgroups spread their start in K.
--   stagger_stride_bytes INTEGER [bytes]: Distance of those positions.
--   split_u INTEGER: Workgroups that share the sum of a tile; 0: chosen at launch.
--   split_algorithm VARCHAR: How the parts come together: SB, MB or MBSK (see tensile_tokens).
--   stream_k INTEGER: Stream-K mode; 0: none.
--   workgroup_mapping INTEGER: Width of the bands of tiles that neighbouring workgroups take.
--   source_swap BOOLEAN: Whether operands of matrix instructions are swapped.
--   isa VARCHAR: Target, for example gfx1151.
-- Example:
--   SELECT macro_tile_m, macro_tile_n, depth_u, matrix_instruction, lds_bytes FROM tensile_kernels LIMIT 5;
CREATE OR REPLACE VIEW tensile_kernels AS
SELECT
    name_id,
    name,
    operation,
    coalesce(decoded ->> '$.generator', CASE library WHEN 'hipBLASLt' THEN 'TensileLite' ELSE 'Tensile' END) AS generator,
    layout,
    decoded ->> '$.types' AS data_types,
    tile_m AS macro_tile_m,
    tile_n AS macro_tile_n,
    tile_k AS depth_u,
    decoded ->> '$.ActivationComputeType' AS activation_compute_type,
    decoded ->> '$.MI' AS matrix_instruction,
    decoded ->> '$.WG' AS workgroup,
    (decoded ->> '$.threads')::INTEGER AS threads,
    decoded ->> '$.TT' AS thread_tile,
    decoded ->> '$.MIWT' AS wave_tile,
    (decoded ->> '$.WS')::INTEGER AS wave_size,
    (decoded ->> '$.PGR')::INTEGER AS prefetch_global,
    (decoded ->> '$.PLR')::INTEGER AS prefetch_local,
    (decoded ->> '$.SIA')::INTEGER AS schedule,
    coalesce(decoded ->> '$.1LDSB', decoded ->> '$.LDSB') = '1' AS single_lds_buffer,
    (decoded ->> '$.lds_bytes')::BIGINT AS lds_bytes,
    (decoded ->> '$.LPA')::INTEGER AS lds_pad_a,
    (decoded ->> '$.LPB')::INTEGER AS lds_pad_b,
    coalesce(decoded ->> '$.LBSPPA', decoded ->> '$.LBSPP')::INTEGER AS lds_block_a_bytes,
    coalesce(decoded ->> '$.LBSPPB', decoded ->> '$.LBSPP')::INTEGER AS lds_block_b_bytes,
    coalesce(decoded ->> '$.GLVWA', decoded ->> '$.GRVWA', decoded ->> '$.GRVW')::INTEGER AS global_read_width_a,
    coalesce(decoded ->> '$.GLVWB', decoded ->> '$.GRVWB', decoded ->> '$.GRVW')::INTEGER AS global_read_width_b,
    (decoded ->> '$.LRVW')::INTEGER AS local_read_width,
    coalesce(decoded ->> '$.VWA', decoded ->> '$.VW')::INTEGER AS vector_width_a,
    coalesce(decoded ->> '$.VWB', decoded ->> '$.VW')::INTEGER AS vector_width_b,
    (decoded ->> '$.SVW')::INTEGER AS store_width,
    (decoded ->> '$.SU')::INTEGER AS stagger_u,
    (decoded ->> '$.SUS')::INTEGER AS stagger_stride_bytes,
    (decoded ->> '$.GSU')::INTEGER AS split_u,
    decoded ->> '$.GSUA' AS split_algorithm,
    (decoded ->> '$.SK')::INTEGER AS stream_k,
    (decoded ->> '$.WGM')::INTEGER AS workgroup_mapping,
    (decoded ->> '$.SS') = '1' AS source_swap,
    name_arch AS isa
FROM kernel_names
WHERE family IN ('tensile', 'splitK_reduce') AND library IN ('rocBLAS/Tensile', 'hipBLASLt') AND decoded IS NOT NULL;
