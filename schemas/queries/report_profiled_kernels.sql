SELECT
    c.short_name AS kernel,
    c.library,
    coalesce(b.verdict, 'unknown') AS verdict,
    b.detail,
    c.duration_ns,
    c.compute_pct,
    c.memory_pct,
    c.dram_pct,
    c.l2_hit_pct,
    c.occupancy_pct,
    c.theoretical_occupancy_pct,
    c.trace,
    c.launch_index
FROM launch_counters AS c
INNER JOIN bounds AS b USING (trace, launch_index)
WHERE b.rule = $rule AND list_contains($traces::VARCHAR[], c.trace)
ORDER BY c.duration_ns DESC NULLS LAST, c.trace, c.launch_index;
