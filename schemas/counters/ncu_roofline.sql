-- The roofline of each profiled launch as the section files of Nsight Compute compute it, per precision and memory level.
--
-- The roofline of each profiled launch as the section files of Nsight Compute compute it (SpeedOfLight_*Roofline*.section): per precision and memory
-- level, with the clocks of the profile, which differ from launch to launch and from the data sheet. A factor that a version of ncu has as a metric
-- of its own (derived__…) is taken from there: newer ones count a half FMA as 4 operations, older ones as 2. Method 'totals' where the rates were not
-- collected: operations and DRAM bytes over the duration, and no peaks.
--
-- Columns:
--   trace: as in kernels
--   launch_index: as in metrics
--   signature_id: as in kernels
--   short_name VARCHAR: Short form of the kernel name for tables.
--   precision VARCHAR: single, double, half, or tensor.
--   operation VARCHAR: ffma, dfma, hfma; for tensor the type of the operation, as in sm__ops_path_tensor_<operation>. One type may stand here as a
--     whole (src_…) and per instruction (op_…).
--   level VARCHAR: dram, l2 or l1.
--   method VARCHAR: section (rates and clocks, as ncu's section files), totals (operations and DRAM bytes over the duration).
--   peak_flops_per_second DOUBLE [FLOP/s]: Peak of the operation at the clock of the profile.
--   peak_bytes_per_second DOUBLE [bytes/s]: Peak of the memory level at the clock of the profile.
--   ridge DOUBLE [FLOP/byte]: Intensity at which both peaks meet.
--   flops_per_second DOUBLE [FLOP/s]: Operations per second.
--   bytes_per_second DOUBLE [bytes/s]: Traffic of the level.
--   intensity DOUBLE [FLOP/byte]: Operations per byte; NULL where there are no operations or no traffic.
--   attainable_flops_per_second DOUBLE [FLOP/s]: What the roof allows at this intensity.
--   peak_pct DOUBLE [%]: flops_per_second of the peak.
--   bound VARCHAR: memory (left of the ridge) or compute.
--   trace_id: as in kernels
CREATE OR REPLACE VIEW ncu_roofline AS
WITH picked AS (
    SELECT
        m.trace,
        m.trace_id,
        m.launch_index,
        m.metric,
        arg_min(m.value, (coalesce(m.precision, 0), m.pass, m.value)) AS value
    FROM launch_metrics AS m
    WHERE
        m.value IS NOT NULL
        AND m.launch_index IS NOT NULL
        AND m.instance IS NULL
        AND (
            m.metric = 'gpu__time_duration.sum'
            OR m.metric LIKE '%__cycles_elapsed.avg.per_second'
            OR m.metric LIKE 'dram__bytes%'
            OR m.metric LIKE '%lts__lts2xbar_%.sum.pe%'
            OR m.metric LIKE '%l1tex__lsu_writeback_%.sum.pe%'
            OR m.metric LIKE '%__sass_thread_inst_executed_op_%'
            OR m.metric LIKE 'sm__ops_path_tensor_%.sum%'
        )
    GROUP BY m.trace, m.trace_id, m.launch_index, m.metric
),

launched AS (
    SELECT trace, trace_id, launch_index, map_from_entries(list((metric, value) ORDER BY metric)) AS m
    FROM picked
    GROUP BY trace, trace_id, launch_index
),

-- Operations per second; a peak is operations per cycle times the clock. `letter` is the type in the names of instructions: fadd, hfma.
work AS (
    SELECT
        trace,
        trace_id,
        launch_index,
        precision,
        letter || 'fma' AS operation,
        coalesce(
            m['derived__sm__' || executed || 'fma_pred_on_x4'],
            m['derived__sm__' || executed || 'fma_pred_on_x2'],
            2 * m['sm__' || executed || 'fma_pred_on.sum.peak_sustained']
        ) * m['sm__cycles_elapsed.avg.per_second'] AS peak,
        (
            coalesce(
                m['derived__smsp__' || executed || 'add_pred_on_x2'], m['smsp__' || executed || 'add_pred_on.sum.per_cycle_elapsed']
            )
            + coalesce(
                m['derived__smsp__' || executed || 'mul_pred_on_x2'], m['smsp__' || executed || 'mul_pred_on.sum.per_cycle_elapsed']
            )
            + coalesce(
                m['derived__smsp__' || executed || 'fma_pred_on_x4'],
                m['derived__smsp__' || executed || 'fma_pred_on_x2'],
                2 * m['smsp__' || executed || 'fma_pred_on.sum.per_cycle_elapsed']
            )
        ) * m['smsp__cycles_elapsed.avg.per_second'] AS achieved,
        coalesce(m['smsp__' || executed || 'add_pred_on.sum'], m['sm__' || executed || 'add_pred_on.sum'])
        + coalesce(m['smsp__' || executed || 'mul_pred_on.sum'], m['sm__' || executed || 'mul_pred_on.sum'])
        + 2 * coalesce(m['smsp__' || executed || 'fma_pred_on.sum'], m['sm__' || executed || 'fma_pred_on.sum']) AS total
    FROM launched
    CROSS JOIN (
        SELECT precision, letter, 'sass_thread_inst_executed_op_' || letter AS executed
        FROM (VALUES ('single', 'f'), ('double', 'd'), ('half', 'h')) AS types (precision, letter)
    )
    UNION ALL
    -- A line per type of tensor operation that ran; these metrics count operations, not instructions.
    SELECT
        trace,
        trace_id,
        launch_index,
        'tensor' AS precision,
        operation,
        m['sm__ops_path_tensor_' || operation || '.sum.peak_sustained'] * m['sm__cycles_elapsed.avg.per_second'] AS peak,
        coalesce(
            m['sm__ops_path_tensor_' || operation || '.sum.per_cycle_elapsed'] * m['sm__cycles_elapsed.avg.per_second'],
            m['sm__ops_path_tensor_' || operation || '.sum.per_second']
        ) AS achieved,
        m['sm__ops_path_tensor_' || operation || '.sum'] AS total
    FROM (
        SELECT
            *,
            unnest(list_distinct(list_transform(
                list_filter(map_keys(m), lambda name: starts_with(name, 'sm__ops_path_tensor_') AND m[name] > 0),
                lambda name: regexp_extract(name, '^sm__ops_path_tensor_(\w+)\.sum(\.per_cycle_elapsed|\.per_second)?$', 1)
            ))) AS operation
        FROM launched
    ) AS typed
    WHERE operation <> ''
),

-- Bytes per second.
traffic AS (
    SELECT
        trace_id,
        launch_index,
        'dram' AS level,
        m['dram__bytes.sum.peak_sustained'] * m['dram__cycles_elapsed.avg.per_second'] AS peak,
        m['dram__bytes.sum.per_second'] AS achieved,
        coalesce(
            coalesce(m['dram__bytes_read.sum'], m['dram__bytes_op_read.sum'])
            + coalesce(m['dram__bytes_write.sum'], m['dram__bytes_op_write.sum']),
            m['dram__bytes.sum']
        ) AS total,
        m['gpu__time_duration.sum'] AS duration_ns
    FROM launched
    UNION ALL
    SELECT
        trace_id,
        launch_index,
        'l2' AS level,
        coalesce(
            m['derived__lts__lts2xbar_bytes.sum.peak_sustained'], 32 * m['lts__lts2xbar_cycles_active.sum.peak_sustained']
        ) * m['lts__cycles_elapsed.avg.per_second'] AS peak,
        coalesce(m['derived__lts__lts2xbar_bytes.sum.per_second'], 32 * m['lts__lts2xbar_cycles_active.sum.per_second']) AS achieved,
        NULL AS total,
        m['gpu__time_duration.sum'] AS duration_ns
    FROM launched
    UNION ALL
    SELECT
        trace_id,
        launch_index,
        'l1' AS level,
        128 * coalesce(
            m['l1tex__lsu_writeback_active_mem_lgds.sum.peak_sustained'],
            m['l1tex__lsu_writeback_active_mem_lg.sum.peak_sustained'],
            m['l1tex__lsu_writeback_active.sum.peak_sustained']
        ) * m['l1tex__cycles_elapsed.avg.per_second'] AS peak,
        128 * coalesce(
            m['l1tex__lsu_writeback_active_mem_lgds.sum.per_second'],
            m['l1tex__lsu_writeback_active_mem_lg.sum.per_second'],
            m['l1tex__lsu_writeback_active.sum.per_second']
        ) AS achieved,
        NULL AS total,
        m['gpu__time_duration.sum'] AS duration_ns
    FROM launched
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
    FROM work AS w
    INNER JOIN traffic AS b USING (trace_id, launch_index)
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
    -- Without work there is no point to draw: no intensity, rather than the logarithm of nothing.
    nullif(r.flops_per_second, 0) / nullif(r.bytes_per_second, 0) AS intensity,
    least(
        r.peak_flops_per_second,
        nullif(r.flops_per_second, 0) / nullif(r.bytes_per_second, 0) * r.peak_bytes_per_second
    ) AS attainable_flops_per_second,
    100 * r.flops_per_second / nullif(r.peak_flops_per_second, 0) AS peak_pct,
    CASE
        WHEN r.flops_per_second = 0 THEN NULL
        WHEN r.flops_per_second / nullif(r.bytes_per_second, 0) < r.peak_flops_per_second / nullif(r.peak_bytes_per_second, 0) THEN 'memory'
        WHEN r.flops_per_second / nullif(r.bytes_per_second, 0) >= r.peak_flops_per_second / nullif(r.peak_bytes_per_second, 0) THEN 'compute'
    END AS bound,
    r.trace_id
FROM lines AS r
INNER JOIN launches AS l USING (trace_id, launch_index)
LEFT JOIN signatures AS s USING (signature_id)
LEFT JOIN kernel_names AS n USING (name_id)
WHERE l.timing = 'profiled' AND r.flops_per_second IS NOT NULL AND r.bytes_per_second IS NOT NULL;
