-- The $top kernels of the selection that take most time: one row per name and launch configuration. Collectives are left out: Nsight Compute runs a
-- kernel several times, and then waits for the other ranks for ever.
SELECT
    min(name) AS name,
    arg_min(short_name, name) AS short_name,
    coalesce(launch_key, name_id) AS launch,
    count(*) AS n,
    try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
    100 * sum(duration_ns) / nullif(sum(sum(duration_ns)) OVER (), 0) AS share_pct,
    bool_and(coalesce(arch LIKE 'gfx%', false) OR source IN ('rocprofv3', 'rpd', 'rocprof')) AS is_amd
FROM selection
WHERE timing = 'timeline' AND kind = 'kernel'
GROUP BY coalesce(launch_key, name_id)
HAVING count(duration_ns) > 0
QUALIFY bool_and(category IS DISTINCT FROM 'COMMUNICATION')
ORDER BY total_ns DESC, launch
LIMIT $top;
