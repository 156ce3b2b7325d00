-- What the rules of Nsight Compute advise on the profiled launches: a row per rule, with the time that it estimates to save in them, most first; of rules that
-- estimate for a part of the kernel alone, and of information, none.
WITH advised AS (
    SELECT trace_id, launch_index, short_name, rule, max(speedup_pct) AS speedup_pct, arg_max(message, (speedup_pct, message)) AS message
    FROM ncu_rules
    WHERE list_contains($traces::VARCHAR[], trace) AND kind <> 'INF' AND speedup_kind = 'global' AND speedup_pct > 0 AND message <> ''
    GROUP BY ALL
)

SELECT
    a.rule,
    sum(a.speedup_pct * l.duration_ns / 100) AS at_stake_ns,
    100 * at_stake_ns / (SELECT sum(duration_ns) FROM launch_counters WHERE list_contains($traces::VARCHAR[], trace)) AS share_pct,
    count(*) AS n,
    arg_max(a.short_name, (a.speedup_pct * l.duration_ns, a.short_name)) AS kernel,
    arg_max(a.speedup_pct, (a.speedup_pct * l.duration_ns, a.short_name)) AS speedup_pct,
    arg_max(a.message, (a.speedup_pct * l.duration_ns, a.short_name)) AS message
FROM advised AS a
INNER JOIN launches AS l USING (trace_id, launch_index)
GROUP BY a.rule
ORDER BY at_stake_ns DESC, a.rule
LIMIT 20;
