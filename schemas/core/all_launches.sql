-- Every GPU activity that was read, repeated and profiled ones included, with all that is known of it.
--
-- `is_primary` marks those that `kernels` has. An operator call that replay found for a launch recorded without one (`inferred_id`) takes the place of
-- what its signature says.
--
-- Columns:
--   trace VARCHAR: Name of the trace.
--   run, source, rank, label: as in traces
--   kind: as in signatures
--   name, short_name, demangled, match_name: as in kernel_names
--   category, category_source: as in signatures
--   family, library, operation: as in kernel_names
--   dtype, dtype_source: as in signatures
--   device: as in launches
--   device_name: as in device_peaks
--   gpu, arch: as in devices
--   stream, start_ns, end_ns, duration_ns: as in launches
--   grid_x, grid_y, grid_z, block_x, block_y, block_z, total_blocks, threads_per_block: as in signatures
--   registers, agprs, sgprs, shared_bytes, static_shared_bytes, dynamic_shared_bytes, occupancy, occupancy_limiter, blocks_per_multiprocessor,
--     warps_per_multiprocessor: as in launches
--   bytes, copy_kind, op, input_dims, input_strides, input_dtypes, scalars, gemm_m, gemm_n, gemm_k, gemm_batch, numel: as in signatures
--   dims_source VARCHAR: Where the problem size comes from: op (recorded call), inherited (the call of another launch), inferred (found by trying),
--     bound (upper bound from the launch).
--   flops, moved_bytes, work_method: as in signatures
--   tflops DOUBLE [TFLOP/s]: flops over the duration of the launch; NULL where either is unknown.
--   gbs DOUBLE [GB/s]: moved_bytes over the duration of the launch; NULL where either is unknown.
--   pct_peak_flops DOUBLE [%]: tflops over the peak of the device for dtype (device_peaks); NULL where either is unknown, never cut off at 100.
--   pct_peak_bandwidth DOUBLE [%]: gbs over the peak bandwidth of the device (device_peaks); over 100 where caches serve part of it, NULL where
--     unknown.
--   role VARCHAR: What the kernel does in its program, as a user noted it (kerneldb db annotate --role).
--   module: as in launches
--   phase VARCHAR: Outermost annotation below the step around the launch, else the default phase of the trace.
--   range_path, python_line, collective, collective_dtype, collective_in_elements, collective_out_elements, group_size, group_name,
--     group_description, group_ranks, collective_seq, correlation_id, launch_status, link_method: as in launches
--   timing VARCHAR: timeline, or profiled (under a counter profiler, which slows and serialises).
--   api_call, launch_start_ns, launch_duration_ns: as in launches
--   launch_delay_ns BIGINT [ns]: From the start of the launching call to the start on the device.
--   queued_ns, call_ordinal, process, context, graph_id, graph_node_id, signature_id: as in launches
--   level, launch_key, call_id, name_id: as in signatures
--   trace_id, launch_index, op_id, api_index, range_id: as in launches
--   tags MAP(VARCHAR, VARCHAR): Keys and values noted on the trace: tags['precision'] = 'fp16'.
--   replay_grade VARCHAR: How close the latest replay came: L0 same kernel and launch, L1 same kernel in another launch configuration, L2 same
--     family, L3 same operation, L4 failed; NULL where none was tried.
--   replay_ns DOUBLE [ns]: Median duration in the latest replay; NULL where nothing came out.
--   reported_grid_x, reported_grid_y, reported_grid_z, reported_grid_unit, registers_reported, agprs_reported, sgprs_reported, scratch_bytes,
--     theoretical_occupancy, theoretical_occupancy_cu, theoretical_limiter, queue, quality: as in launches
--   energy_mj DOUBLE [mJ]: Energy of one launch, from the latest replay; NULL where none measured it.
--   dynamic_mj DOUBLE [mJ]: The same above the launch-loop power (a queue full of empty kernels).
--   energy_reason VARCHAR: Why the latest replay measured no energy.
--   is_primary BOOLEAN: Whether the launch is in `kernels`: no better trace of its run holds it, and it is timed as most of the run is.
--   iteration, steady_state: as in launches
--   inferred_by VARCHAR: How a call that was not recorded was found: inherited or inferred; op, dims, sizes, flops and replay then come from it. NULL
--     where the call is recorded or not known.
--   inferred_id VARCHAR: Signature with that call, in signatures.
-- Example:
--   SELECT trace, timing, is_primary, count(*) AS launches FROM all_launches GROUP BY ALL;
CREATE OR REPLACE VIEW all_launches AS
SELECT
    t.trace, t.run, t.source, t.rank, t.label,
    l.kind, s.name, s.short_name, s.demangled, s.match_name, s.category, s.category_source, s.family, s.library, s.operation, s.dtype, s.dtype_source,
    l.device, d.device_name, d.gpu, d.arch, l.stream, l.start_ns, l.end_ns, l.duration_ns,
    s.grid_x, s.grid_y, s.grid_z, s.block_x, s.block_y, s.block_z, s.total_blocks, s.threads_per_block,
    l.registers, l.agprs, l.sgprs, l.shared_bytes, l.static_shared_bytes, l.dynamic_shared_bytes,
    l.occupancy, l.occupancy_limiter, l.blocks_per_multiprocessor, l.warps_per_multiprocessor, s.bytes, s.copy_kind,
    coalesce(f.op, s.op) AS op,
    coalesce(f.input_dims, s.input_dims) AS input_dims,
    coalesce(f.input_strides, s.input_strides) AS input_strides,
    coalesce(f.input_dtypes, s.input_dtypes) AS input_dtypes,
    coalesce(f.scalars, s.scalars) AS scalars,
    coalesce(f.gemm_m, s.gemm_m) AS gemm_m,
    coalesce(f.gemm_n, s.gemm_n) AS gemm_n,
    coalesce(f.gemm_k, s.gemm_k) AS gemm_k,
    coalesce(f.gemm_batch, s.gemm_batch) AS gemm_batch,
    coalesce(f.numel, s.numel) AS numel,
    CASE WHEN f.dims_source = 'op' THEN l.inferred_by ELSE coalesce(f.dims_source, s.dims_source) END AS dims_source,
    coalesce(s.noted_flops, f.flops, s.flops) AS flops,
    coalesce(s.noted_bytes, f.moved_bytes, s.moved_bytes) AS moved_bytes,
    coalesce(s.noted_method, f.work_method, s.work_method) AS work_method,
    coalesce(s.noted_flops, f.flops, s.flops) / nullif(l.duration_ns, 0) / 1e3 AS tflops,
    coalesce(s.noted_bytes, f.moved_bytes, s.moved_bytes) / nullif(l.duration_ns, 0) AS gbs,
    100 * coalesce(s.noted_flops, f.flops, s.flops) / nullif(l.duration_ns, 0) / 1e3 / CASE s.peak_fact
        WHEN 'bf16_tflops' THEN d.bf16_tflops
        WHEN 'fp16_tflops' THEN d.fp16_tflops
        WHEN 'fp32_tflops' THEN d.fp32_tflops
        WHEN 'tf32_tflops' THEN d.tf32_tflops
        WHEN 'fp64_tflops' THEN d.fp64_tflops
        WHEN 'fp8_tflops' THEN d.fp8_tflops
        WHEN 'fp4_tflops' THEN d.fp4_tflops
        WHEN 'int8_tops' THEN d.int8_tops
    END AS pct_peak_flops,
    100 * coalesce(s.noted_bytes, f.moved_bytes, s.moved_bytes) / nullif(l.duration_ns, 0) / d.bandwidth_gbs AS pct_peak_bandwidth,
    coalesce(s.role, f.role) AS role,
    l.module,
    coalesce(l.phase, t.default_phase) AS phase,
    l.range_path, l.python_line,
    l.collective, l.collective_dtype, l.collective_in_elements, l.collective_out_elements,
    l.group_size, l.group_name, l.group_description, l.group_ranks, l.collective_seq,
    l.correlation_id, l.launch_status, l.link_method, l.timing, l.api_call, l.launch_start_ns, l.launch_duration_ns,
    l.start_ns - l.launch_start_ns AS launch_delay_ns,
    l.queued_ns, l.call_ordinal, l.process, l.context, l.graph_id, l.graph_node_id,
    l.signature_id, s.level, s.launch_key, s.call_id, s.name_id, l.trace_id, l.launch_index, l.op_id, l.api_index, l.range_id, t.tags,
    coalesce(f.replay_grade, s.replay_grade) AS replay_grade,
    CASE WHEN f.replay_grade IS NULL THEN s.replay_ns ELSE f.replay_ns END AS replay_ns,
    l.reported_grid_x, l.reported_grid_y, l.reported_grid_z, l.reported_grid_unit,
    l.registers_reported, l.agprs_reported, l.sgprs_reported, l.scratch_bytes,
    l.theoretical_occupancy, l.theoretical_occupancy_cu, l.theoretical_limiter, l.queue, l.quality,
    CASE WHEN f.replay_grade IS NULL THEN s.energy_mj ELSE f.energy_mj END AS energy_mj,
    CASE WHEN f.replay_grade IS NULL THEN s.dynamic_mj ELSE f.dynamic_mj END AS dynamic_mj,
    CASE WHEN f.replay_grade IS NULL THEN s.energy_reason ELSE f.energy_reason END AS energy_reason,
    l.is_repeat IS NOT TRUE AND l.timing = coalesce(t.primary_timing, l.timing) AS is_primary,
    l.iteration, l.steady_state, l.inferred_by, l.inferred_id
FROM launches AS l
LEFT JOIN (
    SELECT
        traces.trace_id, traces.name AS trace, traces.run, traces.source, traces.rank, traces.label, traces.default_phase,
        traces.primary_timing, noted.tags
    FROM traces
    LEFT JOIN (
        SELECT trace_id, map_from_entries(list((key, value) ORDER BY key)) AS tags FROM trace_tags GROUP BY trace_id
    ) AS noted USING (trace_id)
) AS t USING (trace_id)
LEFT JOIN _named_signatures AS s USING (signature_id)
LEFT JOIN _signature_calls AS f ON l.inferred_id = f.signature_id
LEFT JOIN device_peaks AS d ON l.trace_id = d.trace_id AND l.device = d.device;
