-- The rows of `named`, rollups of the traces $names, that are primary; of the traces $revived, whose work is primary in a trace that is not
-- named, the best rows, kernels and copies apart: launches, then sums per launch configuration, then per name, in the order of $names. Sums
-- per phase overlap and never count.
SELECT * EXCLUDE (is_primary)
FROM named
WHERE is_primary OR (list_contains($revived, trace) AND origin <> 'report_phase')
QUALIFY
    is_primary
    OR dense_rank() OVER (
        PARTITION BY run, rank, CASE WHEN origin = 'launches' THEN trace END, kind = 'kernel', is_primary
        ORDER BY
            CASE origin WHEN 'launches' THEN 0 WHEN 'report_grid' THEN 1 ELSE 2 END,
            timing = 'profiled',
            CASE WHEN origin <> 'launches' THEN list_position($revived, trace) END
    ) = 1;
