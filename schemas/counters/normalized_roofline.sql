-- The roofline of profiled launches in percentages, for those without counted operations.
--
-- The roofline where only percentages were collected: how much of the compute peak against how much of the memory peak. Says why the launch has no
-- roofline in FLOP/s.
--
-- Columns:
--   trace: as in kernels
--   launch_index: as in metrics
--   signature_id: as in kernels
--   short_name VARCHAR: Short form of the kernel name for tables.
--   compute_pct DOUBLE [%]: Compute (SM) throughput of its peak (sm__throughput).
--   dram_pct DOUBLE [%]: DRAM throughput of its peak (gpu__dram_throughput, else dram__throughput).
--   memory_pct DOUBLE [%]: Memory throughput of its peak: the highest of L1, L2 and DRAM (gpu__compute_memory_throughput).
--   compute_per_dram DOUBLE: compute_pct over dram_pct.
--   reason VARCHAR: Why the launch has no roofline in FLOP/s, and what to collect; NULL where it has one.
--   duration_ns DOUBLE [ns]: Duration under the profiler (gpu__time_duration.sum); with other clocks and caches than in a running program.
--   trace_id: as in kernels
CREATE OR REPLACE VIEW normalized_roofline AS
SELECT
    c.trace,
    c.launch_index,
    c.signature_id,
    c.short_name,
    c.compute_pct,
    c.dram_pct,
    c.memory_pct,
    c.compute_pct / nullif(c.dram_pct, 0) AS compute_per_dram,
    CASE
        WHEN r.trace_id IS NULL THEN 'no operations counted (neither rates per cycle nor sums): collect the SpeedOfLight_*Roofline* sections'
        WHEN NOT r.has_peaks THEN 'operations and DRAM bytes, but no peaks: collect the SpeedOfLight_*Roofline* sections'
    END AS reason,
    c.duration_ns,
    c.trace_id
FROM launch_counters AS c
LEFT JOIN (
    SELECT trace, trace_id, launch_index, bool_or(ridge IS NOT NULL) AS has_peaks
    FROM ncu_roofline
    WHERE level = 'dram'
    GROUP BY trace, trace_id, launch_index
) AS r ON c.trace = r.trace AND c.trace_id = r.trace_id AND c.launch_index = r.launch_index;
