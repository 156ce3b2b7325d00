WITH chosen AS (FROM kernels WHERE trace = $trace),

found AS (
    SELECT sum(kernel_ns_at_stake)::DOUBLE AS at_stake_ns, sum(total_ns)::DOUBLE AS total_ns, sum(runs)::BIGINT AS runs
    FROM fusion_candidates('chosen')
)

SELECT at_stake_ns, total_ns, runs
FROM found
WHERE at_stake_ns >= 0.05 * (SELECT sum(total_ns) FROM kernel_rollups WHERE trace = $trace AND counted);
