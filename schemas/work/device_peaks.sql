-- The GPU that each device of a trace is, and what its data sheet promises.
--
-- `devices.gpu` says which GPU, gpu_specs what it can do. Processes number their devices on their own: where two of them disagree on a number,
-- nothing is said about it.
--
-- Columns:
--   trace_id, device: as in devices
--   device_name VARCHAR: Name as printed; NULL where processes of the trace disagree.
--   arch, multiprocessors: as in devices
--   gpu: as in devices
--   bandwidth_gbs DOUBLE [GB/s]: Peak memory bandwidth.
--   fp64_tflops DOUBLE [TFLOP/s]: Peak for fp64, matrix units included.
--   fp32_tflops DOUBLE [TFLOP/s]: Peak for fp32.
--   tf32_tflops DOUBLE [TFLOP/s]: Peak for tf32.
--   fp16_tflops DOUBLE [TFLOP/s]: Peak for fp16, dense.
--   bf16_tflops DOUBLE [TFLOP/s]: Peak for bf16, dense.
--   fp8_tflops DOUBLE [TFLOP/s]: Peak for fp8, dense.
--   fp4_tflops DOUBLE [TFLOP/s]: Peak for fp4, dense.
--   int8_tops DOUBLE [TOP/s]: Peak for int8, dense.
--   peaks MAP(VARCHAR, DOUBLE) [TFLOP/s]: Peak by element type, as kernels.dtype spells it: peaks['bf16'].
-- Example:
--   SELECT device_name, gpu, bandwidth_gbs, peaks['fp16'] AS fp16_tflops FROM device_peaks;
CREATE OR REPLACE VIEW device_peaks AS
WITH known AS (
    SELECT
        trace_id,
        device,
        CASE WHEN min(name) = max(name) THEN min(name) END AS device_name,
        CASE WHEN min(arch) = max(arch) THEN min(arch) END AS arch,
        CASE WHEN min(multiprocessors) = max(multiprocessors) THEN min(multiprocessors) END AS multiprocessors,
        CASE WHEN min(gpu) = max(gpu) THEN min(gpu) END AS gpu
    FROM devices
    GROUP BY trace_id, device
),

specs AS (
    SELECT s.name AS gpu, map_from_entries(list((p.dtype, s.value) ORDER BY p.dtype)) AS peaks
    FROM gpu_specs AS s
    INNER JOIN peak_types AS p USING (fact)
    WHERE s.value IS NOT NULL
    GROUP BY s.name
),

memory AS (
    SELECT name AS gpu, value AS bandwidth_gbs FROM gpu_specs WHERE fact = 'bandwidth_gbs'
)

SELECT
    k.trace_id,
    k.device,
    k.device_name,
    k.arch,
    k.multiprocessors,
    k.gpu,
    m.bandwidth_gbs,
    s.peaks['fp64'] AS fp64_tflops,
    s.peaks['fp32'] AS fp32_tflops,
    s.peaks['tf32'] AS tf32_tflops,
    s.peaks['fp16'] AS fp16_tflops,
    s.peaks['bf16'] AS bf16_tflops,
    s.peaks['fp8'] AS fp8_tflops,
    s.peaks['fp4'] AS fp4_tflops,
    s.peaks['int8'] AS int8_tops,
    s.peaks
FROM known AS k
LEFT JOIN specs AS s USING (gpu)
LEFT JOIN memory AS m USING (gpu);
