SELECT sum(idle_ns)::DOUBLE AS at_stake_ns, sum(idle_ns)::DOUBLE AS idle_ns, sum(share_pct) AS share_pct, mode(waiting_call) AS waiting_call
FROM found_idle
WHERE cause = 'sync'
HAVING sum(share_pct) >= 1;
