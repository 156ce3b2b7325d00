-- Which of the kernels that ran have valid counters, by trace and signature, largest time first.
--
-- A kernel is covered by counters of its own signature, else by those of signatures that match it (`signature_matches`).
--
-- Columns:
--   trace: as in kernels
--   timing: as in kernel_rollups
--   signature_id, short_name, category: as in kernels
--   n, total_ns: as in kernel_rollups
--   share_pct: as in time_by
--   covered BOOLEAN: Whether compute and memory throughput and DRAM bytes are known.
--   method, candidates: as in signature_counters
--   profiled BIGINT: Profiled launches that the counters come from.
--   metrics BIGINT: Number of metrics with a value.
--   has_throughput BOOLEAN: Whether compute and memory throughput are known.
--   has_dram BOOLEAN: Whether DRAM bytes or throughput are known.
--   has_occupancy BOOLEAN: Whether achieved occupancy is known.
--   has_roofline BOOLEAN: Whether the inputs of the roofline are known.
--   gpu: as in signature_counters
-- Example:
--   SELECT short_name, share_pct, covered, method FROM counter_coverage() LIMIT 10;
CREATE OR REPLACE MACRO counter_coverage(source := 'kernels') AS TABLE
WITH _launched AS (FROM _launch_rollups(source))

FROM _counter_coverage('_launched');
