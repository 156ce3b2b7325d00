SELECT all_total_ns::DOUBLE AS at_stake_ns, all_n AS n, 100 * all_total_ns / whole AS share_pct
FROM found_conversions, (SELECT sum(total_ns) AS whole FROM kernel_rollups WHERE trace = $trace AND timing = 'timeline')
WHERE all_total_ns >= 0.03 * whole
LIMIT 1;
