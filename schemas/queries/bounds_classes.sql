-- Per verdict of the rule $rule: how many of the selected profiled launches, and means over them (unweighted). The last row is over all.
WITH chosen AS (
    SELECT coalesce(p.primary_trace_id, s.trace_id) AS trace_id, coalesce(p.primary_launch_index, s.launch_index) AS launch_index
    FROM selection AS s
    LEFT JOIN launch_prints AS p ON s.trace_id = p.trace_id AND s.launch_index = p.launch_index
    WHERE s.timing = 'profiled'
    UNION
    -- Counters of the selected kernels that were read of their calls, run again.
    SELECT l.trace_id, l.launch_index
    FROM launches AS l
    INNER JOIN traces AS t ON l.trace_id = t.trace_id AND t.kind = 'replay'
    WHERE l.signature_id IN (SELECT signature_id FROM selection)
),

judged AS (
    SELECT b.verdict, c.*
    FROM bounds AS b
    INNER JOIN launch_counters AS c USING (trace, trace_id, launch_index)
    WHERE
        b.rule = $rule
        AND (b.trace_id, b.launch_index) IN (SELECT (trace_id, launch_index) FROM chosen)
)

SELECT
    CASE WHEN grouping(verdict) = 1 THEN '(all)' ELSE coalesce(verdict, '(unknown)') END AS verdict,
    count(*) AS launches,
    avg(compute_pct) AS compute_pct,
    avg(dram_pct) AS dram_pct,
    avg(memory_pct) AS memory_pct,
    avg(occupancy_pct) AS occupancy_pct,
    avg(l1_hit_pct) AS l1_hit_pct,
    avg(l2_hit_pct) AS l2_hit_pct,
    avg(duration_ns) AS mean_ns
FROM judged
GROUP BY GROUPING SETS ((verdict), ())
HAVING count(*) > 0
ORDER BY grouping(verdict), launches DESC, verdict;
