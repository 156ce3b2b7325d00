-- Recorded against replayed, by grade: how sure it is that the same kernel ran. Calls that were not recorded but found stand apart.
SELECT
    coalesce(replay_grade || coalesce(' (' || inferred_by || ')', ''), 'not replayed') AS grade,
    count(*) AS n,
    try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
    100 * sum(duration_ns) / nullif(sum(sum(duration_ns)) OVER (), 0) AS share_pct,
    sum(replay_ns) AS replayed_ns,
    100 * (sum(replay_ns) / nullif(sum(duration_ns) FILTER (replay_ns IS NOT NULL), 0) - 1) AS delta_pct,
    sum(energy_mj) AS energy_mj
FROM kernels
WHERE trace = $trace AND timing = 'timeline' AND kind = 'kernel'
GROUP BY grade
HAVING $trace IN (SELECT trace FROM kernels WHERE trace = $trace AND replay_grade IS NOT NULL)
ORDER BY grade;
