-- Summed before the names are joined: a name is some hundred characters long.
CREATE OR REPLACE VIEW top_kernels AS
SELECT
    g.trace,
    k.name,
    k.short_name,
    k.kind,
    k.category,
    k.library,
    g.n,
    g.total_ns,
    g.mean_ns,
    g.min_ns,
    g.max_ns,
    g.share_pct,
    g.name_id
FROM (
    SELECT
        trace,
        name_id,
        sum(n)::BIGINT AS n,
        sum(total_ns)::BIGINT AS total_ns,
        sum(total_ns) / sum(timed) AS mean_ns,
        min(min_ns) AS min_ns,
        max(max_ns) AS max_ns,
        100 * sum(total_ns) / nullif(sum(sum(total_ns)) OVER (PARTITION BY trace), 0) AS share_pct
    FROM kernel_rollups
    WHERE counted
    GROUP BY trace, name_id
) AS g
LEFT JOIN kernel_names AS k USING (name_id)
ORDER BY g.total_ns DESC, g.trace, g.name_id;
