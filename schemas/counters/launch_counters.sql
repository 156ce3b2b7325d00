-- The counters of each profiled launch that classification and overviews need, side by side; NULL where not collected.
--
-- Columns:
--   trace: as in kernels
--   launch_index: as in metrics
--   signature_id, short_name, category, library: as in kernels
--   duration_ns DOUBLE [ns]: Duration under the profiler (gpu__time_duration.sum; AMD: of the launch); with other clocks and caches than in a running
--     program.
--   compute_pct DOUBLE [%]: Compute (SM) throughput of its peak (sm__throughput).
--   memory_pct DOUBLE [%]: Memory throughput of its peak: the highest of L1, L2 and DRAM (gpu__compute_memory_throughput).
--   dram_pct DOUBLE [%]: DRAM throughput of its peak (gpu__dram_throughput, else dram__throughput).
--   l1_pct DOUBLE [%]: L1/TEX cache throughput of its peak.
--   l2_pct DOUBLE [%]: L2 cache throughput of its peak.
--   l1_hit_pct DOUBLE [%]: L1/TEX hit rate of sectors, as collected: over 100 where hits and lookups were counted in different runs of the kernel.
--   l2_hit_pct DOUBLE [%]: L2 hit rate of sectors, as collected (AMD: L2CacheHit, of requests).
--   occupancy_pct DOUBLE [%]: Achieved occupancy: active warps of the most that fit a multiprocessor (AMD: OccupancyPercent).
--   theoretical_occupancy_pct DOUBLE [%]: Theoretical occupancy.
--   waves DOUBLE: Waves of blocks per multiprocessor.
--   registers DOUBLE: Registers per thread.
--   dram_read_bytes DOUBLE [bytes]: Bytes read from DRAM (AMD: FETCH_SIZE).
--   dram_write_bytes DOUBLE [bytes]: Bytes written to DRAM (AMD: WRITE_SIZE).
--   dram_bytes DOUBLE [bytes]: Bytes read and written; where these were not counted, rate times duration.
--   dram_bytes_per_second DOUBLE [bytes/s]: DRAM throughput.
--   trace_id: as in kernels
-- Example:
--   SELECT trace, short_name, compute_pct, memory_pct, occupancy_pct FROM launch_counters ORDER BY duration_ns DESC;
CREATE OR REPLACE VIEW launch_counters AS
WITH wide AS (
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
        max(value) FILTER (metric IN ('lts__t_sector_hit_rate.pct', 'L2CacheHit')) AS l2_hit_pct,
        max(value) FILTER (metric IN ('sm__warps_active.avg.pct_of_peak_sustained_active', 'OccupancyPercent')) AS occupancy_pct,
        max(value) FILTER (metric = 'sm__maximum_warps_per_active_cycle_pct') AS theoretical_occupancy_pct,
        max(value) FILTER (metric = 'launch__waves_per_multiprocessor') AS waves,
        max(value) FILTER (metric = 'launch__registers_per_thread') AS registers,
        coalesce(
            max(value) FILTER (metric = 'dram__bytes_read.sum'),
            max(value) FILTER (metric IN ('dram__bytes_op_read.sum', 'FETCH_SIZE', 'FetchSize'))
        ) AS dram_read_bytes,
        coalesce(
            max(value) FILTER (metric = 'dram__bytes_write.sum'),
            max(value) FILTER (metric IN ('dram__bytes_op_write.sum', 'WRITE_SIZE', 'WriteSize'))
        ) AS dram_write_bytes,
        max(value) FILTER (metric = 'dram__bytes.sum') AS counted_dram_bytes,
        max(value) FILTER (metric = 'dram__bytes.sum.per_second') AS dram_bytes_per_second
    FROM _launch_values
    WHERE metric IN (
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
        'dram__bytes.sum.per_second',
        'FETCH_SIZE',
        'FetchSize',
        'WRITE_SIZE',
        'WriteSize',
        'L2CacheHit',
        'OccupancyPercent'
    )
    GROUP BY trace, trace_id, launch_index
)

SELECT
    w.trace,
    w.launch_index,
    l.signature_id,
    n.short_name,
    s.category,
    n.library,
    coalesce(w.duration_ns, l.duration_ns) AS duration_ns,
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
WHERE (l.timing = 'profiled' OR l.quality LIKE '%counters_collected%') AND l.is_repeat IS NOT TRUE;
