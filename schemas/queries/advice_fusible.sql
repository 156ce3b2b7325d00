-- The time at stake is that of `fusion_candidates`, with the pauses. Whether it is worth telling is judged by the kernels alone: where the
-- host is late, pauses are long everywhere.
SELECT
    all_at_stake_ns::DOUBLE AS at_stake_ns,
    all_kernel_ns_at_stake::DOUBLE AS kernels_ns,
    (all_at_stake_ns - all_kernel_ns_at_stake)::DOUBLE AS pauses_ns,
    all_total_ns::DOUBLE AS total_ns,
    all_runs AS runs
FROM found_fusion
WHERE all_kernel_ns_at_stake >= 0.05 * (SELECT sum(total_ns) FROM kernel_rollups WHERE trace = $trace AND timing = 'timeline')
LIMIT 1;
