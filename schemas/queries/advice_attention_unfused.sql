SELECT sum(total_ns)::DOUBLE AS at_stake_ns, sum(n)::BIGINT AS n, sum(total_ns)::DOUBLE AS total_ns
FROM time_by('category')
WHERE trace = $trace AND timing <> 'profiled' AND category = 'SOFTMAX'
HAVING sum(share_pct) >= 1 AND sum(n) >= 10;
