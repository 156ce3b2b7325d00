-- The counters of one profiled launch that classification and overviews need, side by side. NULL: not collected.
CREATE OR REPLACE VIEW launch_counters AS
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
        AND m.metric IN (
            'gpu__time_duration.sum',
            'sm__throughput.avg.pct_of_peak_sustained_elapsed',
            'gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed',
            'gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed',
            'dram__throughput.avg.pct_of_peak_sustained_elapsed',
            'l1tex__throughput.avg.pct_of_peak_sustained_active',
            'lts__throughput.avg.pct_of_peak_sustained_elapsed',
            'l1tex__t_sector_hit_rate.pct',
            'lts__t_sector_hit_rate.pct',
            'sm__warps_active.avg.pct_of_peak_sustained_active',
            'sm__maximum_warps_per_active_cycle_pct',
            'launch__waves_per_multiprocessor',
            'launch__registers_per_thread',
            'dram__bytes_read.sum',
            'dram__bytes_write.sum',
            'dram__bytes_op_read.sum',
            'dram__bytes_op_write.sum',
            'dram__bytes.sum',
            'dram__bytes.sum.per_second'
        )
    GROUP BY m.trace, m.trace_id, m.launch_index, m.metric
),

wide AS (
    SELECT
        trace,
        trace_id,
        launch_index,
        max(value) FILTER (metric = 'gpu__time_duration.sum') AS duration_ns,
        max(value) FILTER (metric = 'sm__throughput.avg.pct_of_peak_sustained_elapsed') AS compute_pct,
        max(value) FILTER (metric = 'gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed') AS memory_pct,
        coalesce(
            max(value) FILTER (metric = 'gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed'),
            max(value) FILTER (metric = 'dram__throughput.avg.pct_of_peak_sustained_elapsed')
        ) AS dram_pct,
        max(value) FILTER (metric = 'l1tex__throughput.avg.pct_of_peak_sustained_active') AS l1_pct,
        max(value) FILTER (metric = 'lts__throughput.avg.pct_of_peak_sustained_elapsed') AS l2_pct,
        max(value) FILTER (metric = 'l1tex__t_sector_hit_rate.pct') AS l1_hit_pct,
        max(value) FILTER (metric = 'lts__t_sector_hit_rate.pct') AS l2_hit_pct,
        max(value) FILTER (metric = 'sm__warps_active.avg.pct_of_peak_sustained_active') AS occupancy_pct,
        max(value) FILTER (metric = 'sm__maximum_warps_per_active_cycle_pct') AS theoretical_occupancy_pct,
        max(value) FILTER (metric = 'launch__waves_per_multiprocessor') AS waves,
        max(value) FILTER (metric = 'launch__registers_per_thread') AS registers,
        coalesce(
            max(value) FILTER (metric = 'dram__bytes_read.sum'), max(value) FILTER (metric = 'dram__bytes_op_read.sum')
        ) AS dram_read_bytes,
        coalesce(
            max(value) FILTER (metric = 'dram__bytes_write.sum'), max(value) FILTER (metric = 'dram__bytes_op_write.sum')
        ) AS dram_write_bytes,
        max(value) FILTER (metric = 'dram__bytes.sum') AS counted_dram_bytes,
        max(value) FILTER (metric = 'dram__bytes.sum.per_second') AS dram_bytes_per_second
    FROM picked
    GROUP BY trace, trace_id, launch_index
)

SELECT
    w.trace,
    w.launch_index,
    l.signature_id,
    n.short_name,
    n.category,
    n.library,
    w.duration_ns,
    w.compute_pct,
    w.memory_pct,
    w.dram_pct,
    w.l1_pct,
    w.l2_pct,
    w.l1_hit_pct,
    w.l2_hit_pct,
    w.occupancy_pct,
    w.theoretical_occupancy_pct,
    w.waves,
    w.registers,
    w.dram_read_bytes,
    w.dram_write_bytes,
    -- Sums first; a rate has fewer digits.
    coalesce(
        w.dram_read_bytes + w.dram_write_bytes, w.counted_dram_bytes, w.dram_bytes_per_second * w.duration_ns / 1e9
    ) AS dram_bytes,
    w.dram_bytes_per_second,
    w.trace_id
FROM wide AS w
INNER JOIN launches AS l USING (trace_id, launch_index)
LEFT JOIN signatures AS s USING (signature_id)
LEFT JOIN kernel_names AS n USING (name_id)
WHERE l.timing = 'profiled' AND l.is_repeat IS NOT TRUE;
