-- Quantiles of merged rollups stand in signature_quantiles: they cost more than all of this, and are not exact.
CREATE OR REPLACE VIEW signature_stats AS
SELECT
    g.trace,
    g.signature_id,
    n.name,
    n.short_name,
    s.kind,
    n.category,
    n.family,
    n.library,
    n.operation,
    n.dtype,
    s.op,
    s.input_dims,
    s.input_dtypes,
    s.grid_x,
    s.grid_y,
    s.grid_z,
    s.block_x,
    s.block_y,
    s.block_z,
    s.bytes,
    s.copy_kind,
    s.level,
    g.n,
    g.total_ns,
    g.mean_ns,
    g.min_ns,
    g.max_ns,
    g.stddev_ns,
    g.share_pct,
    s.flops,
    s.moved_bytes,
    r.grade AS replay_grade,
    r.replay_ns
FROM (
    SELECT
        trace,
        signature_id,
        sum(n)::BIGINT AS n,
        sum(total_ns)::BIGINT AS total_ns,
        sum(total_ns) / sum(timed) AS mean_ns,
        min(min_ns) AS min_ns,
        max(max_ns) AS max_ns,
        sqrt(greatest(sum(sum_squares_ns2) - sum(total_ns)::DOUBLE * sum(total_ns) / sum(timed), 0) / nullif(sum(timed) - 1, 0))
            AS stddev_ns,
        100 * sum(total_ns) / nullif(sum(sum(total_ns)) OVER (PARTITION BY trace), 0) AS share_pct
    FROM kernel_rollups
    WHERE counted
    GROUP BY trace, signature_id
) AS g
LEFT JOIN signatures AS s USING (signature_id)
LEFT JOIN kernel_names AS n USING (name_id)
LEFT JOIN latest_replays AS r ON g.signature_id = r.signature_id
ORDER BY g.total_ns DESC, g.trace, g.signature_id;
