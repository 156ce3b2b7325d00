-- One kind of operation may be counted under several names (dense and sparse, plain and by instruction): of a precision the largest count
-- stands, with the lowest peak of those that share it, as in the macro `roofline`. Where no peak was counted, it is that of the data sheet
-- for the type, if the GPU is known by name. Data sheets give no rate of sparse products, and none of half and double without matrix units.
WITH counted AS (
    SELECT
        r.short_name AS kernel,
        r.operation AS category,
        r.intensity,
        r.flops_per_second,
        c.duration_ns AS total_ns,
        r.peak_flops_per_second,
        r.peak_bytes_per_second,
        1e12 * CASE
            WHEN r.operation LIKE '%sparsity_on' THEN NULL
            ELSE d.peaks[CASE WHEN r.precision = 'single' THEN 'fp32' ELSE regexp_extract(r.operation, 'src_([a-z]+[0-9]+)', 1) END]
        END AS sheet_flops_per_second,
        1e9 * d.bandwidth_gbs AS sheet_bytes_per_second,
        r.precision,
        r.operation,
        r.method,
        d.gpu,
        coalesce(d.device_name, d.arch) AS printed,
        r.trace,
        r.launch_index
    FROM ncu_roofline AS r
    INNER JOIN launch_counters AS c USING (trace, launch_index)
    INNER JOIN launches AS l ON r.trace_id = l.trace_id AND r.launch_index = l.launch_index
    LEFT JOIN device_peaks AS d ON l.trace_id = d.trace_id AND l.device = d.device
    WHERE r.level = 'dram' AND r.intensity IS NOT NULL AND list_contains($traces::VARCHAR[], r.trace)
    QUALIFY row_number() OVER (
        PARTITION BY r.trace, r.launch_index, r.precision ORDER BY r.flops_per_second DESC, r.peak_flops_per_second, r.operation
    ) = 1
)

SELECT
    kernel,
    category,
    intensity,
    flops_per_second,
    total_ns,
    coalesce(peak_flops_per_second, sheet_flops_per_second) AS peak_flops_per_second,
    coalesce(peak_bytes_per_second, sheet_bytes_per_second) AS peak_bytes_per_second,
    coalesce(peak_flops_per_second, sheet_flops_per_second) / coalesce(peak_bytes_per_second, sheet_bytes_per_second) AS ridge,
    precision,
    method,
    CASE
        WHEN peak_flops_per_second IS NOT NULL AND peak_bytes_per_second IS NOT NULL THEN 'counters'
        WHEN coalesce(peak_flops_per_second, sheet_flops_per_second) / coalesce(peak_bytes_per_second, sheet_bytes_per_second) IS NOT NULL
            THEN 'data sheet of ' || gpu
    END AS peaks_from,
    gpu,
    printed,
    trace
FROM counted
ORDER BY flops_per_second DESC, trace, launch_index, operation
LIMIT 500;
