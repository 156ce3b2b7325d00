-- GPU time by any columns: category, operator, phase, library, data type, or several of them.
--
-- Launches that have no value (no operator was recorded, no phase was marked) have a row of their own, with NULL.
--
-- Arguments:
--   keys: the columns, with commas between: category, family, library, operation, dtype, op, inferred or inherited (found_by), phase, kind, name,
--     short_name, origin, signature_id, name_id.
-- Columns:
--   trace: as in kernels
--   timing: as in kernel_rollups
--   category: as in kernels
--   n, total_ns: as in kernel_rollups
--   mean_ns DOUBLE [ns]: Mean duration.
--   min_ns, max_ns: as in kernel_rollups
--   share_pct DOUBLE [%]: Share of the summed durations of the trace, of the launches of one timing.
-- Example:
--   FROM time_by('category');
CREATE OR REPLACE MACRO time_by(keys, source := 'kernels') AS TABLE
WITH _summed AS (FROM _launch_rollups(source))

SELECT * EXCLUDE (stddev_ns)
FROM _sums_by('_summed', keys)
ORDER BY total_ns DESC, trace, timing, COLUMNS(lambda c: list_contains(string_split(replace(keys, ' ', ''), ','), c));
