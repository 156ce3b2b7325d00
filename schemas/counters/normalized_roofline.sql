-- How much of the compute peak each profiled launch reaches against how much of the memory peak, also where no operations were counted.
--
-- `ncu_roofline` has the roofline in FLOP/s; `reason` says why a launch has none there.
--
-- Columns:
--   trace: as in kernels
--   launch_index: as in metrics
--   signature_id, short_name: as in kernels
--   compute_pct, dram_pct, memory_pct: as in launch_counters
--   compute_per_dram DOUBLE: compute_pct over dram_pct.
--   reason VARCHAR: Why the launch has no roofline in FLOP/s, and what to collect; NULL where it has one.
--   duration_ns: as in launch_counters
--   trace_id: as in kernels
-- Example:
--   SELECT trace, short_name, compute_pct, dram_pct, reason FROM normalized_roofline;
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
