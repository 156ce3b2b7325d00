SELECT all_total_ns::DOUBLE AS at_stake_ns, all_n AS n, 100 * all_total_ns / whole AS share_pct
FROM found_conversions, (SELECT sum(total_ns) AS whole FROM kernel_rollups WHERE trace = $trace AND timing = 'timeline')
WHERE all_total_ns >= 0.03 * whole AND all_total_ns >= 0.01 * coalesce((SELECT any_value(span_ns) FROM found_wall), 0)
LIMIT 1;
