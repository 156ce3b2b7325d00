-- The roofline of each profiled launch as the section files of Nsight Compute compute it, per precision and memory level.
--
-- The section files are SpeedOfLight_*Roofline*.section. Peaks are those of the clocks of the profile, which differ from launch to launch and from
-- the data sheet; where the rates were not collected (method totals), there are none.
--
-- Columns:
--   trace: as in kernels
--   launch_index: as in metrics
--   signature_id, short_name: as in kernels
--   precision VARCHAR: single, double, half, or tensor.
--   operation VARCHAR: ffma, dfma, hfma; for tensor the type of the operation, as in sm__ops_path_tensor_<operation>. One type may stand here as a
--     whole (src_…) and per instruction (op_…).
--   level VARCHAR: dram, l2 or l1.
--   method VARCHAR: section (rates and clocks, as ncu's section files), totals (operations and DRAM bytes over the duration).
--   peak_flops_per_second DOUBLE [FLOP/s]: Peak of the operation at the clock of the profile.
--   peak_bytes_per_second DOUBLE [bytes/s]: Peak of the memory level at the clock of the profile.
--   ridge: as in roofline
--   flops_per_second DOUBLE [FLOP/s]: Operations per second.
--   bytes_per_second DOUBLE [bytes/s]: Traffic of the level.
--   intensity DOUBLE [FLOP/byte]: Operations per byte; NULL where there are no operations or no traffic.
--   attainable_flops_per_second DOUBLE [FLOP/s]: What the roof allows at this intensity.
--   peak_pct DOUBLE [%]: flops_per_second of the peak.
--   bound VARCHAR: memory (left of the ridge) or compute.
--   trace_id: as in kernels
-- Example:
--   SELECT short_name, precision, operation, intensity, ridge, peak_pct, bound FROM ncu_roofline WHERE level = 'dram';
CREATE OR REPLACE VIEW ncu_roofline AS
WITH _launched AS (
    SELECT trace, trace_id, launch_index, map_from_entries(list((metric, value) ORDER BY metric)) AS m
    FROM _launch_values
    WHERE
        metric = 'gpu__time_duration.sum'
        OR metric LIKE '%__cycles_elapsed.avg.per_second'
        OR metric LIKE 'dram__bytes%'
        OR metric LIKE '%lts__lts2xbar_%.sum.pe%'
        OR metric LIKE '%l1tex__lsu_writeback_%.sum.pe%'
        OR metric LIKE '%__sass_thread_inst_executed_op_%'
        OR metric LIKE 'sm__ops_path_tensor_%.sum%'
    GROUP BY trace, trace_id, launch_index
),

lines AS (
    SELECT
        w.trace,
        w.trace_id,
        w.launch_index,
        w.precision,
        w.operation,
        b.level,
        CASE WHEN w.achieved IS NOT NULL AND b.achieved IS NOT NULL THEN 'section' ELSE 'totals' END AS method,
        w.peak AS peak_flops_per_second,
        b.peak AS peak_bytes_per_second,
        CASE
            WHEN w.achieved IS NOT NULL AND b.achieved IS NOT NULL THEN w.achieved
            ELSE w.total / nullif(b.duration_ns, 0) * 1e9
        END AS flops_per_second,
        CASE
            WHEN w.achieved IS NOT NULL AND b.achieved IS NOT NULL THEN b.achieved
            ELSE coalesce(b.total / nullif(b.duration_ns, 0) * 1e9, b.achieved)
        END AS bytes_per_second
    FROM _roofline_work('_launched') AS w
    INNER JOIN _roofline_traffic('_launched') AS b USING (trace_id, launch_index)
)

SELECT
    r.trace,
    r.launch_index,
    l.signature_id,
    n.short_name,
    r.precision,
    r.operation,
    r.level,
    r.method,
    r.peak_flops_per_second,
    r.peak_bytes_per_second,
    r.peak_flops_per_second / nullif(r.peak_bytes_per_second, 0) AS ridge,
    r.flops_per_second,
    r.bytes_per_second,
    -- Without work a point cannot be drawn: intensity is NULL instead of 0, which has no logarithm.
    nullif(r.flops_per_second, 0) / nullif(r.bytes_per_second, 0) AS intensity,
    CASE
        WHEN intensity < ridge THEN intensity * r.peak_bytes_per_second
        WHEN intensity >= ridge OR (r.bytes_per_second = 0 AND r.flops_per_second > 0) THEN r.peak_flops_per_second
    END AS attainable_flops_per_second,
    100 * r.flops_per_second / nullif(r.peak_flops_per_second, 0) AS peak_pct,
    CASE
        WHEN intensity < ridge THEN 'memory'
        WHEN intensity >= ridge THEN 'compute'
    END AS bound,
    r.trace_id
FROM lines AS r
INNER JOIN launches AS l USING (trace_id, launch_index)
LEFT JOIN signatures AS s USING (signature_id)
LEFT JOIN kernel_names AS n USING (name_id)
WHERE l.timing = 'profiled' AND r.flops_per_second IS NOT NULL AND r.bytes_per_second IS NOT NULL;
