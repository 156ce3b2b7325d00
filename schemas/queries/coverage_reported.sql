-- Sums that tools printed, of the traces $traces (all where empty).
SELECT *
FROM kernel_rollups
WHERE timing = 'summed' AND (len($traces) = 0 OR list_contains($traces, trace));
