-- One kind of operation may be counted under several names (dense and sparse, plain and by instruction): of a precision the largest count
-- stands, with the lowest peak of those that share it, as in the macro `roofline`.
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
QUALIFY row_number() OVER (
    PARTITION BY r.trace, r.launch_index, r.precision ORDER BY r.flops_per_second DESC, r.peak_flops_per_second, r.operation
) = 1
ORDER BY r.flops_per_second DESC, r.trace, r.launch_index, r.operation
LIMIT 500;
