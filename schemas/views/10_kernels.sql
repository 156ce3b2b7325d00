-- The GPU that each device of a trace is, by its printed name, and its peaks from gpu_specs. Names lose vendor words, case and punctuation as
-- in kerneldb.gpus; where nothing is left ("AMD Radeon Graphics"), architecture and compute units tell. Processes number their devices on
-- their own: where two of them disagree on a number, nothing is said about it.
CREATE OR REPLACE VIEW device_peaks AS
WITH known AS (
    SELECT
        trace_id,
        device,
        CASE WHEN min(name) = max(name) THEN min(name) END AS device_name,
        CASE WHEN min(arch) = max(arch) THEN min(arch) END AS arch,
        CASE WHEN min(multiprocessors) = max(multiprocessors) THEN min(multiprocessors) END AS multiprocessors
    FROM devices
    GROUP BY trace_id, device
),

models AS (
    SELECT
        device_name,
        arch,
        multiprocessors,
        trim(regexp_replace(
            regexp_replace(
                regexp_replace(
                    regexp_replace(lower(device_name), '[^a-z0-9]+', ' ', 'g'),
                    '\b(\d+) g(?:i?b)?\b',
                    '\1gb',
                    'g'
                ),
                '\b(?:nvidia|tesla|geforce|quadro|amd|ati|instinct|radeon|graphics|gpu|accelerator|tm|r|oam|vf|hf|founders edition)\b',
                ' ',
                'g'
            ),
            ' +',
            ' ',
            'g'
        )) AS printed
    FROM (SELECT DISTINCT device_name, arch, multiprocessors FROM known)
),

specs AS (
    SELECT
        name,
        arch,
        max(value) FILTER (WHERE fact = 'bandwidth_gbs') AS bandwidth_gbs,
        max(value) FILTER (WHERE fact = 'fp64_tflops') AS fp64_tflops,
        max(value) FILTER (WHERE fact = 'fp32_tflops') AS fp32_tflops,
        max(value) FILTER (WHERE fact = 'tf32_tflops') AS tf32_tflops,
        max(value) FILTER (WHERE fact = 'fp16_tflops') AS fp16_tflops,
        max(value) FILTER (WHERE fact = 'bf16_tflops') AS bf16_tflops,
        max(value) FILTER (WHERE fact = 'fp8_tflops') AS fp8_tflops,
        max(value) FILTER (WHERE fact = 'fp4_tflops') AS fp4_tflops,
        max(value) FILTER (WHERE fact = 'int8_tops') AS int8_tops
    FROM gpu_specs
    WHERE name <> arch
    GROUP BY name, arch
)

SELECT
    k.trace_id,
    k.device,
    k.device_name,
    k.arch,
    k.multiprocessors,
    p.name AS gpu,
    p.bandwidth_gbs,
    p.fp64_tflops,
    p.fp32_tflops,
    p.tf32_tflops,
    p.fp16_tflops,
    p.bf16_tflops,
    p.fp8_tflops,
    p.fp4_tflops,
    p.int8_tops
FROM known AS k
LEFT JOIN (
    SELECT m.device_name, m.arch AS device_arch, m.multiprocessors, s.*
    FROM models AS m
    INNER JOIN gpu_names AS n
        ON n.printed = CASE WHEN m.printed IN ('', m.arch) OR m.printed IS NULL THEN m.arch || ' ' || m.multiprocessors ELSE m.printed END
    INNER JOIN specs AS s ON n.name = s.name AND (m.arch IS NULL OR m.arch = s.arch)
) AS p
    ON
        k.device_name IS NOT DISTINCT FROM p.device_name
        AND k.arch IS NOT DISTINCT FROM p.device_arch
        AND k.multiprocessors IS NOT DISTINCT FROM p.multiprocessors;

-- What users know about signatures, which goes before what the models say; of several notes on one fact, the latest holds, and of those at
-- one moment that of the last author by name.
CREATE OR REPLACE VIEW signature_notes AS
SELECT
    signature_id,
    arg_max(number, (noted_at, author, number)) FILTER (WHERE key = 'flops') AS flops,
    arg_max(number, (noted_at, author, number)) FILTER (WHERE key = 'bytes') AS moved_bytes,
    CASE WHEN count(*) FILTER (WHERE key IN ('flops', 'bytes')) > 0 THEN 'annotation' END AS work_method,
    arg_max(value, (noted_at, author, value)) FILTER (WHERE key = 'role') AS role
FROM (
    SELECT
        signature_id,
        key,
        value,
        author,
        coalesce(number, try_cast(value AS DOUBLE)) AS number,
        coalesce(noted_at, TIMESTAMP '1970-01-01') AS noted_at
    FROM annotations
)
GROUP BY signature_id;

-- The latest replay of a signature; of several in one run, that of the call which launched it most. Calls that were found for launches
-- without one have signatures of their own. One that was tried for some launches and not believed says nothing of others.
CREATE OR REPLACE VIEW latest_replays AS
SELECT
    coalesce(replays.found_id, replays.signature_id) AS signature_id,
    replays.grade,
    replays.replay_ns,
    replays.energy_mj,
    replays.above_gap_mj,
    replays.energy_reason
FROM replays
LEFT JOIN replay_runs USING (run_id)
WHERE replays.found_id IS NOT NULL OR replays.dims_source IS NULL OR replays.dims_source = 'op'
QUALIFY row_number() OVER (
    PARTITION BY coalesce(replays.found_id, replays.signature_id)
    ORDER BY
        replay_runs.started DESC, replays.launches DESC, replays.grade, replays.item_id, replays.ordinal, replays.run_id, replays.cache
) = 1;

-- The call of a signature: what the operator was asked to do, the work of it, and the latest replay.
CREATE OR REPLACE VIEW signature_calls AS
SELECT
    s.signature_id,
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
    coalesce(noted.flops, s.flops) AS flops,
    coalesce(noted.moved_bytes, s.moved_bytes) AS moved_bytes,
    coalesce(noted.work_method, s.work_method) AS work_method,
    noted.flops AS noted_flops,
    noted.moved_bytes AS noted_bytes,
    noted.work_method AS noted_method,
    noted.role,
    latest.grade AS replay_grade,
    latest.replay_ns,
    latest.energy_mj,
    latest.above_gap_mj,
    latest.energy_reason
FROM signatures AS s
LEFT JOIN signature_notes AS noted USING (signature_id)
LEFT JOIN latest_replays AS latest USING (signature_id);

-- One row per GPU activity that was read, other prints of a report and profiled passes included; `is_primary` marks those that ran: see
-- `kernels`. Small dimensions only: it never joins ops or metrics. The dimensions are joined with each other first, so that a launch is
-- looked up four times and not six. A call that was found for a launch (found_id) goes before what its signature says.
CREATE OR REPLACE VIEW all_launches AS
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
    CASE WHEN f.dims_source = 'op' THEN l.found_by ELSE coalesce(f.dims_source, s.dims_source) END AS dims_source,
    coalesce(s.noted_flops, f.flops, s.flops) AS flops,
    coalesce(s.noted_bytes, f.moved_bytes, s.moved_bytes) AS moved_bytes,
    coalesce(s.noted_method, f.work_method, s.work_method) AS work_method,
    coalesce(s.noted_flops, f.flops, s.flops) / nullif(l.duration_ns, 0) / 1e3 AS tflops,
    coalesce(s.noted_bytes, f.moved_bytes, s.moved_bytes) / nullif(l.duration_ns, 0) AS gbs,
    100 * coalesce(s.noted_flops, f.flops, s.flops) / nullif(l.duration_ns, 0) / 1e3 / CASE
        WHEN s.dtype = 'fp16' THEN d.fp16_tflops
        WHEN s.dtype = 'bf16' THEN d.bf16_tflops
        WHEN s.dtype = 'fp32' THEN d.fp32_tflops
        WHEN s.dtype = 'tf32' THEN d.tf32_tflops
        WHEN s.dtype = 'fp64' THEN d.fp64_tflops
        WHEN s.dtype = 'int8' OR s.dtype = 'uint8' THEN d.int8_tops
        WHEN s.dtype LIKE 'fp8%' OR s.dtype = 'mxfp8' THEN d.fp8_tflops
        WHEN s.dtype = 'fp4' OR s.dtype = 'mxfp4' THEN d.fp4_tflops
    END AS pct_peak_flops,
    100 * coalesce(s.noted_bytes, f.moved_bytes, s.moved_bytes) / nullif(l.duration_ns, 0) / d.bandwidth_gbs AS pct_peak_bandwidth,
    coalesce(s.role, f.role) AS role,
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
    coalesce(f.replay_grade, s.replay_grade) AS replay_grade,
    CASE WHEN f.replay_grade IS NULL THEN s.replay_ns ELSE f.replay_ns END AS replay_ns,
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
    CASE WHEN f.replay_grade IS NULL THEN s.energy_mj ELSE f.energy_mj END AS energy_mj,
    CASE WHEN f.replay_grade IS NULL THEN s.above_gap_mj ELSE f.above_gap_mj END AS above_gap_mj,
    CASE WHEN f.replay_grade IS NULL THEN s.energy_reason ELSE f.energy_reason END AS energy_reason,
    l.is_repeat IS NOT TRUE AND l.timing = coalesce(t.primary_timing, l.timing) AS is_primary,
    l.iteration,
    l.steady,
    l.found_by,
    l.found_id
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
        traces.primary_timing,
        noted.tags
    FROM traces
    LEFT JOIN (
        SELECT trace_id, map_from_entries(list((key, value) ORDER BY key)) AS tags FROM trace_tags GROUP BY trace_id
    ) AS noted USING (trace_id)
) AS t USING (trace_id)
LEFT JOIN (
    -- The call as in signature_calls, whose own scan of the signatures is saved.
    SELECT
        signatures.* EXCLUDE (flops, moved_bytes, work_method),
        coalesce(noted.flops, signatures.flops) AS flops,
        coalesce(noted.moved_bytes, signatures.moved_bytes) AS moved_bytes,
        coalesce(noted.work_method, signatures.work_method) AS work_method,
        noted.flops AS noted_flops,
        noted.moved_bytes AS noted_bytes,
        noted.work_method AS noted_method,
        noted.role,
        latest.grade AS replay_grade,
        latest.replay_ns,
        latest.energy_mj,
        latest.above_gap_mj,
        latest.energy_reason,
        kernel_names.name,
        kernel_names.short_name,
        kernel_names.demangled,
        kernel_names.match_name,
        kernel_names.category,
        kernel_names.family,
        kernel_names.library,
        kernel_names.operation,
        kernel_names.dtype
    FROM signatures
    LEFT JOIN kernel_names USING (name_id)
    LEFT JOIN signature_notes AS noted USING (signature_id)
    LEFT JOIN latest_replays AS latest USING (signature_id)
) AS s USING (signature_id)
LEFT JOIN signature_calls AS f ON l.found_id = f.signature_id
LEFT JOIN device_peaks AS d ON l.trace_id = d.trace_id AND l.device = d.device;

-- What ran, once: the primary launches. No launch of a run stands here twice, and where a run has a timeline, nothing that ran slower under a
-- counter profiler; a run with profiled launches only answers with those (`timing`).
CREATE OR REPLACE VIEW kernels AS
SELECT * EXCLUDE (is_primary) FROM all_launches WHERE is_primary;
