-- Each side is judged by itself, so `selection` has launches that are primary elsewhere, too.
WITH primary_launches AS (FROM selection WHERE timing = 'timeline' AND is_primary),

repeats AS (FROM selection WHERE timing = 'timeline' AND NOT is_primary),

summed AS (
    SELECT *, true AS is_primary FROM _launch_rollups('primary_launches')
    UNION ALL BY NAME
    SELECT *, false AS is_primary FROM _launch_rollups('repeats')
)

FROM _diff_between('summed', 'selection', $before, $after, threshold := $threshold);
