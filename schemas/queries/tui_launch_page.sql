-- Launches of a page of the table: those of the traces $traces with the indexes $indexes, and maybe more. `offset_ns` is the
-- start since the first event of its trace; `operator` says of one that was found for a launch recorded without one how it was.
-- From the tables, as `all_launches` has it: planning that view takes longer than all else that a page asks. The launches are chosen before anything is
-- joined, by lists that rule out most of what is stored.
SELECT
    l.trace_id,
    l.launch_index,
    l.signature_id,
    t.name AS trace,
    l.kind,
    n.short_name AS kernel,
    n.name,
    s.category,
    n.library,
    s.dtype,
    coalesce(f.op, s.op) AS op,
    coalesce(f.op, s.op) || coalesce(' (' || l.inferred_by || ')', '') AS operator,
    coalesce(f.input_dims, s.input_dims) AS shape,
    l.device,
    l.stream,
    l.start_ns,
    l.start_ns - t.window_start_ns AS offset_ns,
    l.end_ns,
    l.duration_ns,
    s.grid_x,
    s.grid_y,
    s.grid_z,
    s.block_x,
    s.block_y,
    s.block_z,
    s.bytes,
    coalesce(l.phase, t.default_phase) AS phase,
    l.module,
    l.registers,
    l.shared_bytes,
    l.occupancy,
    coalesce(s.noted_flops, f.flops, s.flops) / nullif(l.duration_ns, 0) / 1e3 AS tflops,
    coalesce(s.noted_bytes, f.moved_bytes, s.moved_bytes) / nullif(l.duration_ns, 0) AS gbs,
    CASE WHEN f.replay_grade IS NULL THEN s.energy_mj ELSE f.energy_mj END AS energy_mj,
    CASE WHEN f.replay_grade IS NULL THEN s.replay_ns ELSE f.replay_ns END / nullif(l.duration_ns, 0) AS replay_ratio,
    l.timing
FROM (
    FROM launches
    WHERE
        trace_id IN (SELECT unnest($traces::VARCHAR[]))
        AND launch_index IN (SELECT unnest($indexes::BIGINT[]))
) AS l
LEFT JOIN traces AS t USING (trace_id)
LEFT JOIN _signature_calls AS s USING (signature_id)
LEFT JOIN kernel_names AS n ON s.name_id = n.name_id
LEFT JOIN _signature_calls AS f ON l.inferred_id = f.signature_id;
