-- The call is the recorded one, as in the view of this name: calls that were found for launches of one signature may differ.
CREATE OR REPLACE MACRO signature_stats(source) AS TABLE
SELECT
    trace,
    signature_id,
    any_value(name) AS name,
    any_value(short_name) AS short_name,
    any_value(kind) AS kind,
    any_value(category) AS category,
    any_value(family) AS family,
    any_value(library) AS library,
    any_value(operation) AS operation,
    any_value(dtype) AS dtype,
    any_value(op) FILTER (found_id IS NULL) AS op,
    any_value(input_dims) FILTER (found_id IS NULL) AS input_dims,
    any_value(input_dtypes) FILTER (found_id IS NULL) AS input_dtypes,
    any_value(grid_x) AS grid_x,
    any_value(grid_y) AS grid_y,
    any_value(grid_z) AS grid_z,
    any_value(block_x) AS block_x,
    any_value(block_y) AS block_y,
    any_value(block_z) AS block_z,
    any_value(bytes) AS bytes,
    any_value(copy_kind) AS copy_kind,
    any_value(level) AS level,
    count(*) AS n,
    sum(duration_ns)::BIGINT AS total_ns,
    avg(duration_ns) AS mean_ns,
    min(duration_ns) AS min_ns,
    max(duration_ns) AS max_ns,
    stddev_samp(duration_ns) AS stddev_ns,
    100 * sum(duration_ns) / nullif(sum(sum(duration_ns)) OVER (PARTITION BY trace), 0) AS share_pct,
    any_value(flops) FILTER (found_id IS NULL) AS flops,
    any_value(moved_bytes) FILTER (found_id IS NULL) AS moved_bytes,
    any_value(replay_grade) FILTER (found_id IS NULL) AS replay_grade,
    any_value(replay_ns) FILTER (found_id IS NULL) AS replay_ns,
    quantile_cont(duration_ns, 0.5) AS median_ns,
    quantile_cont(duration_ns, 0.95) AS p95_ns,
    quantile_cont(duration_ns, 0.99) AS p99_ns
FROM query_table(source)
WHERE timing = 'timeline'
GROUP BY trace, signature_id
ORDER BY total_ns DESC, trace, signature_id;
