-- One row per GPU activity. Small dimensions only: it never joins ops or metrics. The dimensions are joined with each other first, so
-- that a launch is looked up three times and not five.
CREATE OR REPLACE VIEW kernels AS
SELECT
    t.trace,
    t.run,
    t.source,
    t.rank,
    t.label,
    l.kind,
    s.name,
    s.short_name,
    s.demangled,
    s.match_name,
    s.category,
    s.family,
    s.library,
    s.operation,
    s.dtype,
    l.device,
    d.device_name,
    d.arch,
    l.stream,
    l.start_ns,
    l.end_ns,
    l.duration_ns,
    s.grid_x,
    s.grid_y,
    s.grid_z,
    s.block_x,
    s.block_y,
    s.block_z,
    s.total_blocks,
    s.threads_per_block,
    l.registers,
    l.agprs,
    l.sgprs,
    l.shared_bytes,
    l.static_shared_bytes,
    l.dynamic_shared_bytes,
    l.occupancy,
    l.occupancy_limiter,
    l.blocks_per_multiprocessor,
    s.bytes,
    s.copy_kind,
    s.op,
    s.input_dims,
    s.input_strides,
    s.input_dtypes,
    s.scalars,
    s.gemm_m,
    s.gemm_n,
    s.gemm_k,
    s.gemm_batch,
    s.numel,
    s.dims_source,
    s.flops,
    s.moved_bytes,
    s.work_method,
    l.module,
    coalesce(l.phase, t.default_phase) AS phase,
    l.range_path,
    l.python_line,
    l.collective,
    l.collective_dtype,
    l.collective_in_elements,
    l.collective_out_elements,
    l.group_size,
    l.group_name,
    l.group_description,
    l.group_ranks,
    l.collective_seq,
    l.correlation_id,
    l.launch_status,
    l.link_method,
    l.timing,
    l.api_call,
    l.launch_start_ns,
    l.launch_duration_ns,
    l.start_ns - l.launch_start_ns AS launch_delay_ns,
    l.queued_ns,
    l.call_ordinal,
    l.process,
    l.context,
    l.graph_id,
    l.graph_node_id,
    l.signature_id,
    s.level,
    s.launch_key,
    s.call_id,
    s.name_id,
    l.trace_id,
    l.launch_index,
    l.op_id,
    l.api_index,
    l.range_id,
    t.tags,
    s.replay_grade,
    s.replay_ns,
    l.reported_grid_x,
    l.reported_grid_y,
    l.reported_grid_z,
    l.reported_grid_unit,
    l.registers_reported,
    l.agprs_reported,
    l.sgprs_reported,
    l.scratch_bytes,
    l.theoretical_occupancy,
    l.theoretical_occupancy_cu,
    l.theoretical_limiter,
    l.queue,
    l.quality,
    s.energy_mj,
    s.above_gap_mj,
    s.energy_reason,
    t.counted
FROM launches AS l
LEFT JOIN (
    SELECT
        traces.trace_id,
        traces.name AS trace,
        traces.run,
        traces.source,
        traces.rank,
        traces.label,
        traces.default_phase,
        coalesce(traces.counted, true) AS counted,
        noted.tags
    FROM traces
    LEFT JOIN (
        SELECT trace_id, map_from_entries(list((key, value) ORDER BY key)) AS tags FROM trace_tags GROUP BY trace_id
    ) AS noted USING (trace_id)
) AS t USING (trace_id)
LEFT JOIN (
    SELECT
        signatures.*,
        kernel_names.name,
        kernel_names.short_name,
        kernel_names.demangled,
        kernel_names.match_name,
        kernel_names.category,
        kernel_names.family,
        kernel_names.library,
        kernel_names.operation,
        kernel_names.dtype,
        replayed.grade AS replay_grade,
        replayed.replay_ns,
        replayed.energy_mj,
        replayed.above_gap_mj,
        replayed.energy_reason
    FROM signatures
    LEFT JOIN kernel_names USING (name_id)
    LEFT JOIN (
        -- The latest replay of a signature; of several in one run, that of the call which launched it most.
        SELECT
            replays.signature_id,
            replays.grade,
            replays.replay_ns,
            replays.energy_mj,
            replays.above_gap_mj,
            replays.energy_reason
        FROM replays
        LEFT JOIN replay_runs USING (run_id)
        QUALIFY row_number() OVER (
            PARTITION BY replays.signature_id ORDER BY replay_runs.started DESC, replays.launches DESC, replays.grade
        ) = 1
    ) AS replayed USING (signature_id)
) AS s USING (signature_id)
LEFT JOIN (
    -- Processes number their devices on their own: where two of them disagree on a number, nothing is said about it.
    SELECT
        trace_id,
        device,
        CASE WHEN min(name) = max(name) THEN min(name) END AS device_name,
        CASE WHEN min(arch) = max(arch) THEN min(arch) END AS arch
    FROM devices
    GROUP BY trace_id, device
) AS d ON l.trace_id = d.trace_id AND l.device = d.device;
