-- How far each kernel is from what its GPU allows: intensity, achieved rates and roofs.
--
-- One row per trace, device and signature, and per call that was inferred for launches recorded without one: calls of other sizes share a signature
-- there. Work and traffic come from hardware counters of the signature where those are known, if possible on the same model of GPU, else from the
-- shapes of the operator call or from annotations (`method`). Counters of the one signature that matches it elsewhere only fill in where nothing is
-- known of the call: the same name and launch shape do not make the same size. Times are those of the selected launches; only where all of these ran
-- under a counter profiler is the time that of the profiler (`timing`). Peaks: of the data sheet for the type of the kernel (gpu_specs); without a
-- type, of the counters, if those were read on the same model of GPU. Over 100 % is shown as it is: the work was less than thought, or the part
-- faster than its sheet.
--
-- Arguments:
--   source: A relation with the columns of `kernels`.
-- Columns:
--   trace: as in kernels
--   device: as in kernels
--   kernel VARCHAR: Short name of the kernel.
--   category, library, dtype: as in kernels
--   op VARCHAR: Operator; in brackets inherited or inferred, where it was not recorded but found.
--   input_dims: as in kernels
--   timing VARCHAR: timeline, or profiled where only launches under a counter profiler are there.
--   n, total_ns: as in kernel_rollups
--   mean_ns: as in top_kernels
--   flops DOUBLE [FLOP]: Operations of a launch; of counters, the mean over the profiled launches, if possible those on the same model of GPU.
--   moved_bytes DOUBLE [bytes]: Bytes that a launch moves; of counters, the mean over the profiled launches, if possible those on the same model of
--     GPU.
--   method VARCHAR: Where work and traffic come from: counters, counters of a replay, the model over shapes (in brackets inherited or inferred, where those were found),
--     or, where neither work nor shapes are known, counters of a match.
--   intensity DOUBLE [FLOP/byte]: Operations per byte.
--   flops_per_second DOUBLE [FLOP/s]: Achieved rate of operations: of all launches together, so that long ones weigh more.
--   bytes_per_second DOUBLE [bytes/s]: Achieved rate of bytes.
--   peak_flops_per_second DOUBLE [FLOP/s]: Peak rate of operations for the type of the kernel; without a type, that of counters read on the same
--     model of GPU.
--   peak_bytes_per_second DOUBLE [bytes/s]: Peak rate of the memory.
--   ridge DOUBLE [FLOP/byte]: Intensity at which the peaks of arithmetic and of bandwidth meet.
--   pct_peak_flops DOUBLE [%]: Achieved of the peak rate of operations.
--   pct_peak_bandwidth DOUBLE [%]: Achieved of the peak rate of the memory.
--   pct_attainable DOUBLE [%]: Achieved of what the roof allows at this intensity.
--   bound VARCHAR: latency where less than 5 % of what the roof allows is reached: starting, waiting or too little work limits it. Else memory
--     below the ridge, compute from it on. Of the mean launch; the view bounds judges single launches.
--   signature_id: as in kernels
--   modelled_flops DOUBLE [FLOP]: Operations of a launch by the model over shapes, even where `flops` is from counters.
--   modelled_bytes DOUBLE [bytes]: Bytes of a launch by the model over shapes, even where `moved_bytes` is from counters.
--   work_method VARCHAR: How modelled_flops and modelled_bytes were found, in words; NULL where nothing is known of the work.
--   counted_on VARCHAR: Model of GPU that the counters in `flops` and `moved_bytes` were read on; NULL where they are modelled.
--   gemm_m, gemm_n, gemm_k, gemm_batch, grid_x, grid_y, grid_z: as in kernels
-- Example:
--   SELECT kernel, intensity, pct_peak_flops, pct_peak_bandwidth, bound FROM roofline() WHERE intensity IS NOT NULL;
CREATE OR REPLACE MACRO roofline(source := 'kernels') AS TABLE
WITH _chosen AS (
    SELECT
        trace,
        device,
        signature_id,
        inferred_id,
        inferred_by,
        timing,
        any_value(short_name) AS kernel,
        any_value(category) AS category,
        any_value(library) AS library,
        any_value(dtype) AS dtype,
        any_value(coalesce(gpu, device_name)) AS model,
        any_value(gpu) AS gpu,
        -- A product of fp32 inputs may run as TF32.
        CASE WHEN any_value(dtype_source) IS DISTINCT FROM 'inputs' OR any_value(dtype) <> 'fp32' THEN any_value(dtype) END AS peak_dtype,
        any_value(op) || coalesce(' (' || inferred_by || ')', '') AS op,
        any_value(input_dims) AS input_dims,
        any_value(gemm_m) AS gemm_m, any_value(gemm_n) AS gemm_n, any_value(gemm_k) AS gemm_k, any_value(gemm_batch) AS gemm_batch,
        any_value(grid_x) AS grid_x, any_value(grid_y) AS grid_y, any_value(grid_z) AS grid_z,
        coalesce(bool_and(flops IS NULL AND moved_bytes IS NULL AND input_dims IS NULL AND numel IS NULL), false) AS is_unknown,
        count(*) AS n,
        try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
        avg(duration_ns) AS mean_ns,
        any_value(flops) AS flops,
        any_value(moved_bytes) AS moved_bytes,
        any_value(work_method) || coalesce(' (' || inferred_by || ')', '') AS work_method,
        max(1e14 * tflops / nullif(pct_peak_flops, 0)) AS peak_flops_per_second,
        max(1e11 * gbs / nullif(pct_peak_bandwidth, 0)) AS peak_bytes_per_second
    FROM query_table(source)
    WHERE kind = 'kernel' AND duration_ns > 0
    GROUP BY trace, device, signature_id, inferred_id, inferred_by, timing
    QUALIFY timing = 'timeline' OR count(*) FILTER (timing = 'timeline') OVER (PARTITION BY trace, signature_id) = 0
),

_measured AS (FROM _counted_work),

_reached AS (
    SELECT signature_id, signature_id AS other_id, CASE WHEN of_replay THEN 'counters of a replay' ELSE 'counters' END AS method
    FROM _measured
    WHERE is_total
    UNION ALL
    SELECT m.signature_id, any_value(m.other_id) AS other_id, 'counters of a match' AS method
    FROM signature_matches AS m
    INNER JOIN _measured AS k ON m.other_id = k.signature_id AND k.is_total
    WHERE m.method = 'launch_key' AND m.signature_id NOT IN (SELECT signature_id FROM _measured)
    GROUP BY m.signature_id
    HAVING count(DISTINCT m.other_id) = 1
),

-- Where the GPU of either side is unknown, counters of one model alone give the peaks.
_counted AS (
    SELECT
        c.trace,
        c.device,
        c.signature_id,
        c.inferred_id,
        c.inferred_by,
        c.timing,
        r.method,
        coalesce(own.flops, k.flops) AS flops,
        coalesce(own.moved_bytes, k.moved_bytes) AS moved_bytes,
        coalesce(own.model, k.all_models) AS counted_on,
        CASE
            WHEN own.signature_id IS NOT NULL THEN own.peak_flops_per_second
            WHEN k.models = 1 AND (c.model IS NULL OR k.any_model IS NULL) THEN k.peak_flops_per_second
        END AS peak_flops_per_second,
        CASE
            WHEN own.signature_id IS NOT NULL THEN own.peak_bytes_per_second
            WHEN k.models = 1 AND (c.model IS NULL OR k.any_model IS NULL) THEN k.peak_bytes_per_second
        END AS peak_bytes_per_second
    FROM _chosen AS c
    INNER JOIN _reached AS r ON c.signature_id = r.signature_id AND (r.method <> 'counters of a match' OR c.is_unknown)
    INNER JOIN _measured AS k ON r.other_id = k.signature_id AND k.is_total
    LEFT JOIN _measured AS own ON r.other_id = own.signature_id AND NOT own.is_total AND c.model = own.model
),

_known AS (
    SELECT
        c.* EXCLUDE (is_unknown, model, gpu, peak_dtype, flops, moved_bytes, peak_flops_per_second, peak_bytes_per_second),
        c.flops AS modelled_flops,
        c.moved_bytes AS modelled_bytes,
        CASE WHEN k.flops > 0 AND k.moved_bytes > 0 THEN k.flops ELSE c.flops END AS flops,
        -- Where operations were thought and none counted, not all kinds of them were counted: then bytes, too, stay modelled.
        CASE
            WHEN k.moved_bytes > 0 AND (k.flops > 0 OR coalesce(c.flops, 0) = 0) THEN k.moved_bytes ELSE c.moved_bytes
        END AS moved_bytes,
        CASE
            WHEN k.moved_bytes > 0 AND (k.flops > 0 OR coalesce(c.flops, 0) = 0) THEN k.method ELSE c.work_method
        END AS method,
        CASE WHEN k.moved_bytes > 0 AND (k.flops > 0 OR coalesce(c.flops, 0) = 0) THEN k.counted_on END AS counted_on,
        coalesce(c.peak_flops_per_second, k.peak_flops_per_second, 1e12 * arithmetic.value) AS peak_flops_per_second,
        coalesce(c.peak_bytes_per_second, k.peak_bytes_per_second, 1e9 * memory.value) AS peak_bytes_per_second
    FROM _chosen AS c
    LEFT JOIN gpu_specs AS memory ON c.gpu = memory.name AND memory.fact = 'bandwidth_gbs'
    LEFT JOIN peak_types AS p ON c.peak_dtype = p.dtype
    LEFT JOIN gpu_specs AS arithmetic ON c.gpu = arithmetic.name AND p.fact = arithmetic.fact
    LEFT JOIN _counted AS k
        ON
            c.trace = k.trace
            AND c.device IS NOT DISTINCT FROM k.device
            AND c.signature_id = k.signature_id
            AND c.inferred_id IS NOT DISTINCT FROM k.inferred_id
            AND c.inferred_by IS NOT DISTINCT FROM k.inferred_by
            AND c.timing = k.timing
),

_rated AS (
    SELECT
        *,
        flops / nullif(moved_bytes, 0) AS intensity,
        flops * n / total_ns * 1e9 AS flops_per_second,
        moved_bytes * n / total_ns * 1e9 AS bytes_per_second,
        peak_flops_per_second / peak_bytes_per_second AS ridge
    FROM _known
)

SELECT
    trace, device, kernel, category, library, dtype, op, input_dims, timing, n, total_ns, mean_ns, flops, moved_bytes, method,
    intensity, flops_per_second, bytes_per_second, peak_flops_per_second, peak_bytes_per_second, ridge,
    100 * flops_per_second / peak_flops_per_second AS pct_peak_flops,
    100 * bytes_per_second / peak_bytes_per_second AS pct_peak_bandwidth,
    100 * flops_per_second / nullif(CASE WHEN intensity < ridge THEN intensity * peak_bytes_per_second WHEN intensity >= ridge THEN peak_flops_per_second END, 0)
        AS pct_attainable,
    CASE WHEN pct_attainable < 5 THEN 'latency' WHEN intensity < ridge THEN 'memory' WHEN intensity >= ridge THEN 'compute' END AS bound,
    signature_id, modelled_flops, modelled_bytes, work_method, counted_on, gemm_m, gemm_n, gemm_k, gemm_batch, grid_x, grid_y, grid_z
FROM _rated
ORDER BY total_ns DESC, trace, device, signature_id, inferred_id, inferred_by, timing;
