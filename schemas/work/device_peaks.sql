-- The GPU that each device of a trace is, and its peaks. NULL where the name fits no row of gpu_specs for certain.
--
-- The GPU that each device of a trace is, by its printed name, and its peaks from gpu_specs. Names lose vendor words, case and punctuation as in
-- kerneldb.gpus; where nothing is left ("AMD Radeon Graphics"), architecture and compute units tell. Processes number their devices on their own:
-- where two of them disagree on a number, nothing is said about it.
--
-- Columns:
--   trace_id VARCHAR: Trace.
--   device INTEGER: Number of the device in the trace.
--   device_name VARCHAR: Name as printed; NULL where processes of the trace disagree.
--   arch VARCHAR: Architecture.
--   multiprocessors INTEGER: SMs or compute units.
--   gpu VARCHAR: GPU, as in gpu_specs.
--   bandwidth_gbs DOUBLE [GB/s]: Peak memory bandwidth.
--   fp64_tflops DOUBLE [TFLOP/s]: Peak for fp64, matrix units included.
--   fp32_tflops DOUBLE [TFLOP/s]: Peak for fp32.
--   tf32_tflops DOUBLE [TFLOP/s]: Peak for tf32.
--   fp16_tflops DOUBLE [TFLOP/s]: Peak for fp16, dense.
--   bf16_tflops DOUBLE [TFLOP/s]: Peak for bf16, dense.
--   fp8_tflops DOUBLE [TFLOP/s]: Peak for fp8, dense.
--   fp4_tflops DOUBLE [TFLOP/s]: Peak for fp4, dense.
--   int8_tops DOUBLE [TOP/s]: Peak for int8, dense.
CREATE OR REPLACE VIEW device_peaks AS
WITH known AS (
    SELECT
        trace_id,
        device,
        CASE WHEN min(name) = max(name) THEN min(name) END AS device_name,
        CASE WHEN min(arch) = max(arch) THEN min(arch) END AS arch,
        CASE WHEN min(multiprocessors) = max(multiprocessors) THEN min(multiprocessors) END AS multiprocessors
    FROM devices
    GROUP BY trace_id, device
),

models AS (
    SELECT
        device_name,
        arch,
        multiprocessors,
        trim(regexp_replace(
            regexp_replace(
                regexp_replace(
                    regexp_replace(lower(device_name), '[^a-z0-9]+', ' ', 'g'),
                    '\b(\d+) g(?:i?b)?\b',
                    '\1gb',
                    'g'
                ),
                '\b(?:nvidia|tesla|geforce|quadro|amd|ati|instinct|radeon|graphics|gpu|accelerator|tm|r|oam|vf|hf|founders edition)\b',
                ' ',
                'g'
            ),
            ' +',
            ' ',
            'g'
        )) AS printed
    FROM (SELECT DISTINCT device_name, arch, multiprocessors FROM known)
),

specs AS (
    SELECT
        name,
        arch,
        max(value) FILTER (WHERE fact = 'bandwidth_gbs') AS bandwidth_gbs,
        max(value) FILTER (WHERE fact = 'fp64_tflops') AS fp64_tflops,
        max(value) FILTER (WHERE fact = 'fp32_tflops') AS fp32_tflops,
        max(value) FILTER (WHERE fact = 'tf32_tflops') AS tf32_tflops,
        max(value) FILTER (WHERE fact = 'fp16_tflops') AS fp16_tflops,
        max(value) FILTER (WHERE fact = 'bf16_tflops') AS bf16_tflops,
        max(value) FILTER (WHERE fact = 'fp8_tflops') AS fp8_tflops,
        max(value) FILTER (WHERE fact = 'fp4_tflops') AS fp4_tflops,
        max(value) FILTER (WHERE fact = 'int8_tops') AS int8_tops
    FROM gpu_specs
    WHERE name <> arch
    GROUP BY name, arch
)

SELECT
    k.trace_id,
    k.device,
    k.device_name,
    k.arch,
    k.multiprocessors,
    p.name AS gpu,
    p.bandwidth_gbs,
    p.fp64_tflops,
    p.fp32_tflops,
    p.tf32_tflops,
    p.fp16_tflops,
    p.bf16_tflops,
    p.fp8_tflops,
    p.fp4_tflops,
    p.int8_tops
FROM known AS k
LEFT JOIN (
    SELECT m.device_name, m.arch AS device_arch, m.multiprocessors, s.*
    FROM models AS m
    INNER JOIN gpu_names AS n
        ON n.printed = CASE WHEN m.printed IN ('', m.arch) OR m.printed IS NULL THEN m.arch || ' ' || m.multiprocessors ELSE m.printed END
    INNER JOIN specs AS s ON n.name = s.name AND (m.arch IS NULL OR m.arch = s.arch)
) AS p
    ON
        k.device_name IS NOT DISTINCT FROM p.device_name
        AND k.arch IS NOT DISTINCT FROM p.device_arch
        AND k.multiprocessors IS NOT DISTINCT FROM p.multiprocessors;
