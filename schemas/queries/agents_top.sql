-- GPU time by what an agent asked for: of the selected launches, else of all, from the rollups, which does not depend on their number.
WITH counted AS (
    FROM kernel_rollups WHERE NOT $selected
    UNION ALL BY NAME
    FROM _as_rollups('selection') WHERE $selected
)

SELECT
    timing,
    CASE $by
        WHEN 'kernel' THEN short_name WHEN 'signature' THEN signature_id WHEN 'category' THEN category WHEN 'library' THEN library
        WHEN 'op' THEN op WHEN 'dtype' THEN dtype WHEN 'phase' THEN phase WHEN 'device' THEN device::VARCHAR WHEN 'trace' THEN trace
    END AS key,
    sum(n)::BIGINT AS n,
    sum(total_ns)::BIGINT AS total_ns,
    sum(total_ns)::DOUBLE / nullif(sum(n), 0) AS mean_ns,
    100 * sum(total_ns)::DOUBLE / nullif(sum(sum(total_ns)) OVER (PARTITION BY timing), 0) AS share_pct
FROM counted
GROUP BY timing, key
ORDER BY timing DESC, total_ns DESC, key;
