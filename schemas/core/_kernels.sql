-- The columns of `kernels` that sums over time, collectives and measured workloads read, with few joins: in a small database, planning `kernels` takes longer
-- than reading it.
CREATE OR REPLACE VIEW _kernels AS
SELECT
    l.trace_id,
    l.launch_index,
    l.signature_id,
    l.inferred_id,
    l.inferred_by,
    s.name_id,
    s.grid_x,
    s.grid_y,
    s.grid_z,
    s.block_x,
    s.block_y,
    s.block_z,
    l.kind,
    n.name,
    n.short_name,
    s.category,
    n.library,
    l.process,
    l.device,
    l.stream,
    l.launch_start_ns,
    l.launch_duration_ns,
    l.launch_status,
    l.start_ns,
    l.end_ns,
    l.duration_ns,
    coalesce(l.phase, t.default_phase) AS phase,
    l.timing,
    t.name AS trace,
    t.run,
    t.rank,
    l.collective,
    l.collective_dtype,
    l.collective_in_elements,
    l.collective_out_elements,
    l.group_size,
    l.group_name,
    l.group_ranks,
    l.collective_seq
FROM launches AS l
LEFT JOIN traces AS t USING (trace_id)
LEFT JOIN signatures AS s USING (signature_id)
LEFT JOIN kernel_names AS n USING (name_id)
WHERE l.is_repeat IS NOT TRUE AND l.timing = coalesce(t.primary_timing, l.timing);
