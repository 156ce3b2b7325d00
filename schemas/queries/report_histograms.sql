-- Thirteen figures of the profiled launches in twelve bins each.
WITH figures AS (
    UNPIVOT (
        SELECT
            trace,
            launch_index,
            compute_pct AS "SM throughput, % of peak",
            dram_pct AS "DRAM throughput, % of peak",
            memory_pct AS "Memory throughput, % of peak",
            dram_bytes_per_second / 1e9 AS "Memory throughput, GB/s",
            l1_hit_pct AS "L1 hit rate, %",
            l1_pct AS "L1 throughput, % of peak",
            l2_hit_pct AS "L2 hit rate, %",
            l2_pct AS "L2 throughput, % of peak",
            occupancy_pct AS "Achieved occupancy, %",
            theoretical_occupancy_pct AS "Theoretical occupancy, %",
            duration_ns / 1e3 AS "Duration, µs",
            memory_busy_pct AS "Memory busy, %",
            max_bandwidth_pct AS "Max bandwidth, %"
        FROM launch_counters
        LEFT JOIN (
            SELECT
                trace_id,
                launch_index,
                max(value) FILTER (
                    metric = 'gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed'
                ) AS memory_busy_pct,
                max(value) FILTER (
                    metric = 'gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed'
                ) AS max_bandwidth_pct
            FROM launch_metrics
            WHERE metric LIKE 'gpu__compute_memory_%' AND instance IS NULL
            GROUP BY trace_id, launch_index
        ) USING (trace_id, launch_index)
        WHERE list_contains($traces::VARCHAR[], trace)
    )
    ON COLUMNS(* EXCLUDE (trace, launch_index))
    INTO NAME figure VALUE value
),

ranged AS (
    SELECT figure, min(value) AS low, max(value) AS high FROM figures GROUP BY figure
),

binned AS (
    SELECT
        f.figure,
        r.low,
        CASE WHEN r.high > r.low THEN (r.high - r.low) / 12 ELSE 1 END AS width,
        CASE WHEN r.high > r.low THEN least(11, floor((f.value - r.low) / (r.high - r.low) * 12))::INTEGER ELSE 0 END AS bin
    FROM figures AS f
    INNER JOIN ranged AS r USING (figure)
)

SELECT figure, bin, low + bin * width AS from_value, low + (bin + 1) * width AS to_value, count(*) AS n
FROM binned
GROUP BY ALL
ORDER BY figure, bin;
