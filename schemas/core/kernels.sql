-- What ran on the GPUs, each launch once, with all that is known of it. `--where` conditions are about this relation.
--
-- A launch that several files of one run hold is here once. Where a run has a timeline, launches timed under a counter profiler (which slows and
-- serialises them) are left out; a run that was only profiled answers with those, marked in `timing`. `all_launches` has everything that was
-- read.
--
-- Columns:
--   *: as in all_launches, without is_primary
-- Example:
--   SELECT category, count(*) AS launches, sum(duration_ns) AS total_ns FROM kernels GROUP BY category ORDER BY total_ns DESC;
CREATE OR REPLACE VIEW kernels AS
SELECT * EXCLUDE (is_primary) FROM all_launches WHERE is_primary;
