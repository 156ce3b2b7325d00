-- Statistics by signature (kernel, launch shape and operator call) and trace, largest total first.
--
-- The call is the recorded one: calls that were inferred for launches of one signature may differ. Quantiles: `signature_quantiles` (fast, from
-- histograms) and `launch_quantiles` (exact).
--
-- Columns:
--   trace: as in kernels
--   timing: as in kernel_rollups
--   signature_id: as in signatures
--   name, short_name, kind, category, family, library, operation, dtype, op, input_dims, input_dtypes, grid_x, grid_y, grid_z, block_x, block_y,
--     block_z, bytes, copy_kind, level: as in kernels
--   n, total_ns: as in kernel_rollups
--   mean_ns: as in time_by
--   min_ns, max_ns: as in kernel_rollups
--   stddev_ns DOUBLE [ns]: Sample standard deviation of durations.
--   share_pct: as in time_by
--   flops, moved_bytes, replay_grade, replay_ns: as in kernels
-- Example:
--   SELECT short_name, op, input_dims, n, mean_ns, stddev_ns FROM signature_stats() LIMIT 10;
CREATE OR REPLACE MACRO signature_stats(source := 'kernels') AS TABLE
WITH _summed AS (FROM _launch_rollups(source))

SELECT
    g.trace, g.timing, g.signature_id,
    n.name, n.short_name, s.kind, s.category, n.family, n.library, n.operation, s.dtype,
    s.op, s.input_dims, s.input_dtypes, s.grid_x, s.grid_y, s.grid_z, s.block_x, s.block_y, s.block_z, s.bytes, s.copy_kind, s.level,
    g.n, g.total_ns, g.mean_ns, g.min_ns, g.max_ns, g.stddev_ns, g.share_pct,
    coalesce(w.flops, s.flops) AS flops,
    coalesce(w.moved_bytes, s.moved_bytes) AS moved_bytes,
    r.grade AS replay_grade,
    r.replay_ns
FROM _sums_by('_summed', 'signature_id') AS g
LEFT JOIN signatures AS s USING (signature_id)
LEFT JOIN kernel_names AS n USING (name_id)
LEFT JOIN _signature_notes AS w ON g.signature_id = w.signature_id
LEFT JOIN _latest_replays AS r ON g.signature_id = r.signature_id
ORDER BY g.total_ns DESC, g.trace, g.timing, g.signature_id;
