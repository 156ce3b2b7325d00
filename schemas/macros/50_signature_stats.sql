-- The rows of the view and of the macro signature_stats, from sums per signature with the columns of `kernel_rollups`. The call is the
-- recorded one: calls that were found for launches of one signature may differ. Quantiles stand in signature_quantiles and launch_quantiles.
CREATE OR REPLACE MACRO _signature_stats(sums) AS TABLE
SELECT
    g.trace,
    g.timing,
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
    coalesce(w.flops, s.flops) AS flops,
    coalesce(w.moved_bytes, s.moved_bytes) AS moved_bytes,
    r.grade AS replay_grade,
    r.replay_ns
FROM (
    SELECT
        trace,
        timing,
        signature_id,
        sum(n)::BIGINT AS n,
        try_cast(sum(total_ns) AS BIGINT) AS total_ns,
        sum(total_ns) / nullif(sum(timed), 0) AS mean_ns,
        min(min_ns) AS min_ns,
        max(max_ns) AS max_ns,
        100 * sum(total_ns) / nullif(sum(sum(total_ns)) OVER (PARTITION BY trace, timing), 0) AS share_pct,
        sqrt(greatest(sum(sum_squares_ns2) - sum(total_ns)::DOUBLE * sum(total_ns) / sum(timed), 0) / nullif(sum(timed) - 1, 0))
            AS stddev_ns
    FROM query_table(sums)
    GROUP BY trace, timing, signature_id
) AS g
LEFT JOIN signatures AS s USING (signature_id)
LEFT JOIN kernel_names AS n USING (name_id)
LEFT JOIN signature_notes AS w ON g.signature_id = w.signature_id
LEFT JOIN latest_replays AS r ON g.signature_id = r.signature_id
ORDER BY g.total_ns DESC, g.trace, g.timing, g.signature_id;

CREATE OR REPLACE MACRO signature_stats(source) AS TABLE
WITH _summed AS (FROM launch_rollups(source))

FROM _signature_stats('_summed');

-- FROM launch_quantiles('selection'): the exact median and tail of the durations of each signature.
CREATE OR REPLACE MACRO launch_quantiles(source) AS TABLE
SELECT
    trace,
    timing,
    signature_id,
    count(duration_ns) AS n,
    quantile_cont(duration_ns, 0.5) AS p50_ns,
    quantile_cont(duration_ns, 0.9) AS p90_ns,
    quantile_cont(duration_ns, 0.95) AS p95_ns,
    quantile_cont(duration_ns, 0.99) AS p99_ns
FROM query_table(source)
GROUP BY trace, timing, signature_id
ORDER BY trace, timing, signature_id;
