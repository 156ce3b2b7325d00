-- Counters of the signature $signature_id that people look at first; the view has all.
SELECT c.metric, c.mean, c.min, c.max, c.unit, c.launches, c.method, c.candidates, c.gpu, c.cache, c.measured_ids
FROM signature_counters AS c
INNER JOIN (
    SELECT unnest(metrics) AS metric, generate_subscripts(metrics, 1) AS place
    FROM (
        SELECT
            [
                'gpu__time_duration.sum',
                'sm__throughput.avg.pct_of_peak_sustained_elapsed',
                'gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed',
                'gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed',
                'dram__bytes_read.sum',
                'dram__bytes_write.sum',
                'dram__bytes.sum.per_second',
                'l1tex__t_sector_hit_rate.pct',
                'lts__t_sector_hit_rate.pct',
                'sm__warps_active.avg.pct_of_peak_sustained_active',
                'sm__maximum_warps_per_active_cycle_pct',
                'launch__waves_per_multiprocessor',
                'launch__registers_per_thread',
                -- AMD's, by the names of ROCm.
                'FETCH_SIZE',
                'FetchSize',
                'WRITE_SIZE',
                'WriteSize',
                'L2CacheHit',
                'TCC_HIT_sum',
                'TCC_MISS_sum',
                'OccupancyPercent',
                'GPUBusy',
                'MemUnitBusy',
                'MemUnitStalled',
                'WriteUnitStalled',
                'VALUBusy',
                'VALUUtilization',
                'SALUBusy',
                'MfmaUtil',
                'LDSBankConflict',
                'ALUStalledByLDS',
                'VALUInsts',
                'SALUInsts',
                'SQ_WAVES',
                'GRBM_GUI_ACTIVE'
            ] AS metrics
    ) AS listed
) AS chosen USING (metric)
WHERE c.signature_id = $signature_id
ORDER BY chosen.place;
