CREATE OR REPLACE VIEW operations AS
SELECT
    trace,
    category,
    operation,
    dtype,
    sum(n)::BIGINT AS n,
    sum(total_ns)::BIGINT AS total_ns,
    sum(total_ns) / sum(timed) AS mean_ns,
    min(min_ns) AS min_ns,
    max(max_ns) AS max_ns,
    100 * sum(total_ns) / nullif(sum(sum(total_ns)) OVER (PARTITION BY trace), 0) AS share_pct
FROM kernel_rollups
WHERE counted
GROUP BY trace, category, operation, dtype
ORDER BY total_ns DESC, trace, category, operation, dtype;
