WITH chosen AS (FROM kernels WHERE trace = $trace),

found AS (SELECT sum(total_ns)::DOUBLE AS at_stake_ns, sum(n)::BIGINT AS n FROM precision_conversions('chosen'))

SELECT at_stake_ns, n, 100 * at_stake_ns / whole AS share_pct
FROM found, (SELECT sum(total_ns) AS whole FROM kernel_rollups WHERE trace = $trace AND counted)
WHERE at_stake_ns >= 0.03 * whole;
