-- The ten sequences with most at stake, and in each row the sums of all of them.
WITH chosen AS (
    SELECT k.*, coalesce(f.op, s.op) AS op
    FROM _kernels AS k
    LEFT JOIN signatures AS s USING (signature_id)
    LEFT JOIN signatures AS f ON k.inferred_id = f.signature_id
    WHERE k.trace = $trace
)

SELECT
    *,
    sum(runs) OVER ()::BIGINT AS all_runs,
    try_cast(sum(total_ns) OVER () AS BIGINT) AS all_total_ns,
    try_cast(sum(at_stake_ns) OVER () AS BIGINT) AS all_at_stake_ns,
    try_cast(sum(kernel_ns_at_stake) OVER () AS BIGINT) AS all_kernel_ns_at_stake
FROM fusion_candidates('chosen')
ORDER BY at_stake_ns DESC, kernels
LIMIT 10;
