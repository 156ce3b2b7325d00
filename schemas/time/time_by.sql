-- GPU time by category, operator, phase, library, data type, or several of them, largest first.
--
-- Launches that have no value (no operator was recorded, no phase was marked) have a row of their own, with NULL. The columns between timing and n are
-- the keys: the column `category` below is an example of a key. `stream_time` has devices and streams.
--
-- Arguments:
--   keys: the columns, with commas between: category, family, library, operation, dtype, op, inferred_by (inherited or inferred), phase, kind, name,
--     short_name, origin, signature_id, name_id. Others are an error.
--   source: A relation with the columns of `kernels`.
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
FROM _sums_by(
    CASE
        WHEN list_has_all(
            [
                'category', 'family', 'library', 'operation', 'dtype', 'op', 'inferred_by', 'phase', 'kind', 'name', 'short_name', 'origin',
                'signature_id', 'name_id'
            ],
            string_split(replace(lower(keys), ' ', ''), ',')
        ) THEN '_summed'
        ELSE error('time_by takes columns such as category, op, phase or dtype, with commas between; not ' || keys)
    END,
    lower(keys)
)
ORDER BY total_ns DESC, trace, timing, COLUMNS(lambda c: list_contains(string_split(replace(lower(keys), ' ', ''), ','), c));
