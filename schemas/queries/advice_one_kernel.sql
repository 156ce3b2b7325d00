-- Copies and fills have no counters to look at, and the time of a collective is that of the slowest rank: other rules are about these.
SELECT at_stake_ns, kernel, share_pct, n
FROM (
    SELECT total_ns::DOUBLE AS at_stake_ns, short_name AS kernel, share_pct, n, name_id
    FROM top_kernels()
    WHERE trace = $trace AND timing <> 'profiled' AND share_pct >= 30 AND kind = 'kernel' AND category <> 'COMMUNICATION'
    ORDER BY total_ns DESC, name_id
    LIMIT 1
)
WHERE name_id NOT IN (FROM _counted_names);
