-- Launches and GPU time per `key` and timing of `keyed`: the columns of `kernels`, and `key`.
SELECT
    key,
    min(short_name) AS kernel,
    min(category) AS category,
    min(library) AS library,
    min(op) AS op,
    timing,
    count(*) AS n,
    try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
    100 * sum(duration_ns) / nullif(sum(sum(duration_ns)) OVER (PARTITION BY timing), 0) AS share_pct,
    avg(duration_ns) AS mean_ns,
    min(duration_ns) AS min_ns,
    max(duration_ns) AS max_ns
FROM keyed
GROUP BY key, timing;
