-- What ran on the GPUs, each launch once, summed per signature, device, stream and phase.
--
-- The same work as `kernels`, in far fewer rows, and sums that profilers printed of launches that no file holds.
--
-- Columns:
--   *: as in all_rollups, without is_primary
-- Example:
--   SELECT category, sum(n) AS launches, sum(total_ns) AS total_ns FROM kernel_rollups GROUP BY category ORDER BY total_ns DESC;
CREATE OR REPLACE VIEW kernel_rollups AS
SELECT * EXCLUDE (is_primary) FROM all_rollups WHERE is_primary;
