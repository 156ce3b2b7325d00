-- What the timeline shows about the launch $launch_index of the trace $trace_id, as `all_launches` has it: it draws the launches of other prints, too.
-- From the tables: planning that view takes longer than all else that a step from launch to launch asks.
SELECT
    t.name AS trace,
    l.trace_id,
    l.launch_index,
    l.process,
    l.device,
    coalesce(2 * l.stream, 2 * l.queue + 1) AS lane,
    l.kind,
    n.name,
    n.short_name,
    s.category,
    coalesce(f.op, s.op) AS op,
    l.inferred_by,
    coalesce(l.phase, t.default_phase) AS phase,
    l.start_ns,
    l.end_ns,
    l.duration_ns,
    s.grid_x,
    s.grid_y,
    s.grid_z,
    s.block_x,
    s.block_y,
    s.block_z,
    s.bytes,
    s.copy_kind,
    coalesce(noted.flops, noted_call.flops, f.flops, s.flops) / nullif(l.duration_ns, 0) / 1e3 AS tflops,
    coalesce(noted.moved_bytes, noted_call.moved_bytes, f.moved_bytes, s.moved_bytes) / nullif(l.duration_ns, 0) AS gbs,
    l.signature_id,
    l.module,
    l.python_line,
    l.range_path,
    l.op_id,
    l.api_index,
    l.api_call,
    l.launch_start_ns
FROM launches AS l
LEFT JOIN traces AS t USING (trace_id)
LEFT JOIN signatures AS s USING (signature_id)
LEFT JOIN kernel_names AS n USING (name_id)
LEFT JOIN signatures AS f ON l.inferred_id = f.signature_id
LEFT JOIN _signature_notes AS noted ON l.signature_id = noted.signature_id
LEFT JOIN _signature_notes AS noted_call ON l.inferred_id = noted_call.signature_id
WHERE l.trace_id = $trace_id AND l.launch_index = $launch_index;
