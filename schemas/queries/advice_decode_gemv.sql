SELECT sum(total_ns)::DOUBLE AS at_stake_ns, sum(share_pct) AS share_pct
FROM time_by('category')
WHERE trace = $trace AND timing <> 'profiled' AND category = 'GEMV'
HAVING sum(share_pct) >= 20;
