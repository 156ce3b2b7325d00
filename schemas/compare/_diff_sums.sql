-- The launches of a relation summed for `diff`, with the columns of `all_rollups` that it reads. Of `all_launches` and `kernels` these are the sums
-- that are stored, and those that profilers printed. A relation without `is_primary` (here NULL) is compared whole.
CREATE OR REPLACE MACRO _diff_sums(source) AS TABLE
WITH _flagged AS (
    FROM query_table(source)
    UNION ALL BY NAME
    SELECT NULL::BOOLEAN AS is_primary WHERE false
),

_primary AS (FROM _flagged WHERE timing = 'timeline' AND coalesce(is_primary, true)),

_repeated AS (FROM _flagged WHERE timing = 'timeline' AND NOT is_primary),

_summed AS (
    SELECT *, true AS is_primary FROM _launch_rollups('_primary')
    UNION ALL BY NAME
    SELECT *, false AS is_primary FROM _launch_rollups('_repeated')
)

FROM query_table(CASE source WHEN 'all_launches' THEN 'all_rollups' WHEN 'kernels' THEN 'kernel_rollups' ELSE '_summed' END)
UNION ALL BY NAME
SELECT NULL::BOOLEAN AS is_primary WHERE false;
