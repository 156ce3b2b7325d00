-- Kernel time only: the pauses between the kernels belong to the host and the queue, and are counted there.
SELECT
    all_kernel_ns_at_stake::DOUBLE AS at_stake_ns,
    all_total_ns::DOUBLE AS total_ns,
    all_runs AS runs,
    100 * all_kernel_ns_at_stake / (SELECT any_value(span_ns) FROM found_wall) AS share_pct
FROM found_fusion
WHERE all_runs > 2 AND all_kernel_ns_at_stake >= 0.02 * (SELECT any_value(span_ns) FROM found_wall)
LIMIT 1;
