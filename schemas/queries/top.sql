-- Launches and GPU time per `key` and timing of `keyed`: the columns of `kernel_rollups`, and `key`. The largest `$sort` first: total, n, mean, min or max.
WITH summed AS (
    SELECT
        key,
        min(short_name) AS kernel,
        min(category) AS category,
        min(library) AS library,
        min(op) AS op,
        timing,
        sum(n)::BIGINT AS n,
        try_cast(sum(total_ns) AS BIGINT) AS total_ns,
        100 * sum(total_ns) / nullif(sum(sum(total_ns)) OVER (PARTITION BY timing), 0) AS share_pct,
        sum(total_ns) / nullif(sum(timed), 0) AS mean_ns,
        min(min_ns) AS min_ns,
        max(max_ns) AS max_ns
    FROM keyed
    GROUP BY key, timing
)

-- Only a key that is a signature has a grid, and sizes of a matrix product or a copy.
SELECT summed.*, gemm_m, gemm_n, gemm_k, gemm_batch, grid_x, grid_y, grid_z, bytes
FROM summed
LEFT JOIN signatures ON summed.key::VARCHAR = signatures.signature_id
-- timeline, summed, profiled: times of programs without a profiler come before those under one.
ORDER BY
    timing DESC,
    CASE $sort WHEN 'total' THEN total_ns WHEN 'min' THEN min_ns WHEN 'max' THEN max_ns END DESC,
    CASE WHEN $sort = 'mean' THEN mean_ns END DESC,
    n DESC,
    key;
