WITH judged AS (
    SELECT coalesce(b.verdict, 'unknown') AS verdict, c.*
    FROM bounds AS b
    INNER JOIN launch_counters AS c USING (trace, launch_index)
    WHERE b.rule = $rule AND list_contains($traces::VARCHAR[], b.trace)
)

SELECT
    CASE WHEN grouping(verdict) = 1 THEN 'all' ELSE verdict END AS verdict,
    count(*) AS n,
    100 * count(*) / (SELECT count(*) FROM judged) AS share_pct,
    100 * sum(duration_ns) / (SELECT sum(duration_ns) FROM judged) AS time_pct,
    avg(compute_pct) AS compute_pct,
    avg(dram_pct) AS dram_pct,
    avg(memory_pct) AS memory_pct,
    avg(occupancy_pct) AS occupancy_pct,
    avg(l1_hit_pct) AS l1_hit_pct,
    avg(l2_hit_pct) AS l2_hit_pct,
    avg(duration_ns) AS mean_ns
FROM judged
GROUP BY GROUPING SETS ((verdict), ())
ORDER BY grouping(verdict), n DESC, verdict;
