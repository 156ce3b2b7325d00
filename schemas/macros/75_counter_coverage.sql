-- FROM counter_coverage('selection'): which of the kernels that ran have valid counters, measured on their own signature or on a match.
-- The source is rows of `kernels`, or of `kernel_rollups`: there only sums that a tool printed, for those of launches stand in `kernels`.
CREATE OR REPLACE MACRO counter_coverage(source) AS TABLE
WITH work AS (
    SELECT * FROM query_table(source)
    UNION ALL BY NAME
    SELECT
        NULL::BIGINT AS n,
        NULL::BIGINT AS total_ns,
        NULL::BIGINT AS duration_ns,
        NULL::VARCHAR AS origin,
        NULL::BOOLEAN AS counted
    WHERE false
),

chosen AS (
    SELECT
        trace,
        signature_id,
        any_value(short_name) AS short_name,
        any_value(category) AS category,
        sum(coalesce(n, 1))::BIGINT AS n,
        sum(coalesce(total_ns, duration_ns))::BIGINT AS total_ns,
        100 * sum(coalesce(total_ns, duration_ns)) / nullif(sum(sum(coalesce(total_ns, duration_ns))) OVER (PARTITION BY trace), 0)
            AS share_pct
    FROM work
    WHERE timing = 'timeline' AND kind = 'kernel' AND (origin IS NULL OR (origin <> 'launches' AND counted))
    GROUP BY trace, signature_id
),

counted AS (
    SELECT
        signature_id,
        any_value(method) AS method,
        any_value(candidates) AS candidates,
        max(launches) AS profiled,
        count(*) AS metrics,
        bool_or(metric = 'sm__throughput.avg.pct_of_peak_sustained_elapsed')
        AND bool_or(metric = 'gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed') AS has_throughput,
        bool_or(metric IN ('dram__bytes_read.sum', 'dram__bytes_op_read.sum', 'dram__bytes.sum', 'dram__bytes.sum.per_second'))
            AS has_dram,
        bool_or(metric = 'sm__warps_active.avg.pct_of_peak_sustained_active') AS has_occupancy,
        bool_or(metric LIKE '%sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed')
        AND bool_or(metric = 'dram__bytes.sum.per_second')
        AND bool_or(metric = 'sm__cycles_elapsed.avg.per_second') AS has_roofline
    FROM signature_counters
    WHERE signature_id IN (SELECT signature_id FROM chosen)
    GROUP BY signature_id
)

SELECT
    c.trace,
    c.signature_id,
    c.short_name,
    c.category,
    c.n,
    c.total_ns,
    c.share_pct,
    coalesce(m.has_throughput AND m.has_dram, false) AS covered,
    m.method,
    coalesce(m.candidates, 0) AS candidates,
    coalesce(m.profiled, 0)::BIGINT AS profiled,
    coalesce(m.metrics, 0) AS metrics,
    coalesce(m.has_throughput, false) AS has_throughput,
    coalesce(m.has_dram, false) AS has_dram,
    coalesce(m.has_occupancy, false) AS has_occupancy,
    coalesce(m.has_roofline, false) AS has_roofline
FROM chosen AS c
LEFT JOIN counted AS m USING (signature_id)
ORDER BY c.total_ns DESC, c.trace, c.signature_id;
