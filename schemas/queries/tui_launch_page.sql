-- Launches of a page of the table: `page` holds those of the wanted traces with the wanted indexes, and maybe more. `offset_ns` is the
-- start since the first event of its trace; `operator` says of one that was found for a launch recorded without one how it was.
SELECT
    p.trace_id, p.launch_index, p.signature_id, p.trace, p.kind, p.short_name AS kernel, p.name, p.category, p.library, p.dtype, p.op,
    CASE WHEN p.op IS NOT NULL AND p.inferred_by IS NOT NULL THEN concat(p.op, ' (', p.inferred_by, ')') ELSE p.op END AS operator,
    p.input_dims AS shape, p.device, p.stream, p.start_ns, p.start_ns - t.window_start_ns AS offset_ns, p.end_ns, p.duration_ns, p.grid_x,
    p.grid_y, p.grid_z, p.block_x, p.block_y, p.block_z, p.bytes, p.phase, p.module, p.registers, p.shared_bytes, p.occupancy, p.tflops,
    p.gbs, p.energy_mj, p.replay_ns / nullif(p.duration_ns, 0) AS replay_ratio, p.timing
FROM page AS p
LEFT JOIN (SELECT trace_id, window_start_ns FROM traces) AS t USING (trace_id);
