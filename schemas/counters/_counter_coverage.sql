-- The rows of `counter_coverage`, from sums with the columns of `kernel_rollups`.
CREATE OR REPLACE MACRO _counter_coverage(sums) AS TABLE
WITH _summed AS (
    SELECT * FROM query_table(sums) WHERE timing <> 'profiled' AND kind = 'kernel'
),

chosen AS (
    SELECT * FROM _sums_by('_summed', 'signature_id, short_name, category')
),

covering AS (
    SELECT
        signature_id,
        any_value(method) AS method,
        any_value(candidates) AS candidates,
        array_to_string(list_sort(list_distinct(flatten(list(string_split(gpu, ', ')) FILTER (gpu IS NOT NULL)))), ', ') AS gpu,
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
    c.timing,
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
    coalesce(m.has_roofline, false) AS has_roofline,
    m.gpu
FROM chosen AS c
LEFT JOIN covering AS m USING (signature_id)
ORDER BY c.total_ns DESC, c.trace, c.signature_id;
