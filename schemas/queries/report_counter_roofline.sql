SELECT
    r.short_name AS kernel,
    r.operation AS category,
    r.intensity,
    r.flops_per_second,
    c.duration_ns AS total_ns,
    r.peak_flops_per_second,
    r.peak_bytes_per_second,
    r.ridge,
    r.precision,
    r.method,
    r.trace
FROM ncu_roofline AS r
INNER JOIN launch_counters AS c USING (trace, launch_index)
WHERE r.level = 'dram' AND r.intensity IS NOT NULL AND list_contains($traces::VARCHAR[], r.trace)
ORDER BY r.flops_per_second DESC, r.trace, r.launch_index, r.operation
LIMIT 500;
