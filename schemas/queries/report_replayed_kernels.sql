SELECT
    short_name AS kernel,
    replay_grade || coalesce(' (' || inferred_by || ')', '') AS grade,
    count(*) AS n,
    try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
    avg(duration_ns) AS mean_ns,
    any_value(replay_ns) AS replay_ns,
    100 * (any_value(replay_ns) / nullif(avg(duration_ns), 0) - 1) AS delta_pct,
    any_value(energy_mj) AS energy_mj,
    any_value(dynamic_mj) AS dynamic_mj
FROM kernels
WHERE trace = $trace AND timing = 'timeline' AND kind = 'kernel' AND replay_grade IS NOT NULL
GROUP BY signature_id, short_name, replay_grade, inferred_by, inferred_id
ORDER BY total_ns DESC, signature_id, inferred_id, inferred_by
LIMIT 20;
