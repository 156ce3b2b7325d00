-- What is stored of the launches of each signature of a trace, most time first: shape, call, resources, and the work with the peaks that it is held against. What
-- is not the same for all of them, such as calls that were inferred for each, is left out. $signature: of that alone.
SELECT
    signature_id AS signature,
    any_value(grid_x) AS grid_x,
    any_value(grid_y) AS grid_y,
    any_value(grid_z) AS grid_z,
    any_value(block_x) AS block_x,
    any_value(block_y) AS block_y,
    any_value(block_z) AS block_z,
    any_value(registers) AS registers,
    any_value(shared_bytes) AS shared_bytes,
    max(theoretical_occupancy) AS occupancy,
    min(theoretical_limiter) AS limiter,
    CASE WHEN min(op) = max(op) THEN min(op) END AS op,
    CASE WHEN min(input_dims) = max(input_dims) THEN min(input_dims) END AS input_dims,
    any_value(dtype) AS dtype,
    any_value(bytes) AS bytes,
    CASE WHEN min(gemm_m) = max(gemm_m) THEN min(gemm_m) END AS gemm_m,
    CASE WHEN min(gemm_n) = max(gemm_n) THEN min(gemm_n) END AS gemm_n,
    CASE WHEN min(gemm_k) = max(gemm_k) THEN min(gemm_k) END AS gemm_k,
    CASE WHEN min(flops) = max(flops) THEN min(flops) END AS flops,
    CASE WHEN min(moved_bytes) = max(moved_bytes) THEN min(moved_bytes) END AS moved_bytes,
    min(work_method) AS method,
    -- The memory of the GPU is not what limits copies from and to the host.
    max(1e14 * tflops / nullif(pct_peak_flops, 0)) FILTER (kind = 'kernel') AS peak_flops_per_second,
    max(1e11 * gbs / nullif(pct_peak_bandwidth, 0)) FILTER (kind = 'kernel') AS peak_bytes_per_second
FROM kernels
WHERE trace = $trace AND timing = 'timeline' AND coalesce(signature_id = $signature, true)
GROUP BY signature_id
ORDER BY sum(duration_ns) DESC, signature_id
LIMIT 20000;
