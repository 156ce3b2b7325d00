-- The normalized roofline of the selected launches, one row per trace and signature: means in percent, and why there are no FLOP/s.
-- `by_dram`: `memory_pct` is of DRAM, not of the busiest of all memories.
SELECT
    r.trace,
    r.signature_id,
    any_value(r.short_name) AS kernel,
    any_value(k.category) AS category,
    any_value(k.dtype) AS dtype,
    min(k.device_name) AS device_name,
    count(*) AS n,
    try_cast(sum(k.duration_ns) AS BIGINT) AS total_ns,
    avg(r.compute_pct) AS compute_pct,
    avg(coalesce(r.dram_pct, r.memory_pct)) AS memory_pct,
    bool_and(r.dram_pct IS NOT NULL) AS by_dram,
    min(r.reason) AS reason
FROM normalized_roofline AS r
INNER JOIN selection AS k ON r.trace_id = k.trace_id AND r.launch_index = k.launch_index
GROUP BY r.trace, r.signature_id
ORDER BY total_ns DESC, r.trace, r.signature_id;
