SELECT all_saved_ns::DOUBLE AS at_stake_ns, all_total_ns::DOUBLE AS total_ns, all_runs AS runs
FROM found_fusion
WHERE all_saved_ns >= 0.05 * (SELECT sum(total_ns) FROM kernel_rollups WHERE trace = $trace AND counted)
LIMIT 1;
