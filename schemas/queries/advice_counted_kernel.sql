-- The same as for one kernel, where its counters are stored already.
SELECT at_stake_ns, kernel, share_pct, n
FROM (
    SELECT total_ns::DOUBLE AS at_stake_ns, short_name AS kernel, share_pct, n, name_id
    FROM top_kernels()
    WHERE trace = $trace AND timing <> 'profiled' AND share_pct >= 30 AND kind = 'kernel' AND category <> 'COMMUNICATION'
    ORDER BY total_ns DESC, name_id
    LIMIT 1
)
WHERE name_id IN (FROM _counted_names);
