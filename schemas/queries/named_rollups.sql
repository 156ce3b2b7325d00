-- `named`, rollups of the traces $names, with `counted` as it is among them alone: where nothing of a run counts there, because its
-- work counts in a trace that is not named, the best rows do: launches, then sums per launch configuration, then per name; of equal
-- ones those of the trace that stands first in $names. Sums per phase overlap and never count.
WITH graded AS (
    SELECT
        *,
        coalesce('run ' || run, trace_id) AS work,
        kind = 'kernel' AS of_kernels,
        timing = 'timeline' AND origin <> 'report_phase' AS eligible,
        list_position($names, trace)
        + len($names) * CASE origin WHEN 'launches' THEN 0 WHEN 'report_grid' THEN 1 ELSE 2 END AS place
    FROM named
)

SELECT
    * EXCLUDE (work, of_kernels, eligible, place)
    REPLACE (
        counted OR (eligible AND NOT bool_or(counted) OVER same AND place = min(place) FILTER (eligible) OVER same) AS counted
    )
FROM graded
WINDOW same AS (PARTITION BY work, of_kernels);
