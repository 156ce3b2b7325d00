-- GPU time by kernel name and trace, largest first; a name that does work of several categories (by its operators) has a row for each.
--
-- Columns:
--   trace: as in kernels
--   timing: as in kernel_rollups
--   name, short_name, kind, category, library: as in kernels
--   n, total_ns: as in kernel_rollups
--   mean_ns: as in time_by
--   min_ns, max_ns: as in kernel_rollups
--   share_pct: as in time_by
--   name_id: as in kernel_rollups
-- Example:
--   SELECT short_name, n, total_ns, share_pct FROM top_kernels() LIMIT 10;
CREATE OR REPLACE MACRO top_kernels(source := 'kernels') AS TABLE
-- Summed before the names are joined: a name is some hundred characters long.
WITH _summed AS (FROM _launch_rollups(source))

SELECT
    g.trace, g.timing, k.name, k.short_name, k.kind, g.category, k.library, g.n, g.total_ns, g.mean_ns, g.min_ns, g.max_ns, g.share_pct,
    g.name_id
FROM _sums_by('_summed', 'name_id, category') AS g
LEFT JOIN kernel_names AS k USING (name_id)
ORDER BY g.total_ns DESC, g.trace, g.timing, g.name_id, g.category;
