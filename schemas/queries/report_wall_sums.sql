-- The rows of `report_wall_budget`, from those of `report_wall`, which has cut the time into pieces already.
WITH _caused AS (
    SELECT
        *,
        CASE part WHEN 'computation' THEN coalesce(category, 'OTHER') WHEN 'copy' THEN coalesce(copy_kind, 'copy') ELSE cause END AS what
    FROM found_wall
),

_summed AS (
    SELECT
        device,
        part,
        what AS cause,
        sum(n)::BIGINT AS n,
        nullif(sum(known) FILTER (part = 'computation'), 0)::BIGINT AS known,
        sum(wall_ns) AS all_ns,
        sum(needed_ns) FILTER (part = 'computation') AS needed_ns,
        sum(known_ns) FILTER (part = 'computation') AS known_ns
    FROM _caused
    GROUP BY ALL
)

SELECT
    $trace AS trace,
    device,
    NULL AS name,
    part,
    cause,
    n,
    try_cast(all_ns AS BIGINT) AS wall_ns,
    100 * all_ns / sum(all_ns) OVER (PARTITION BY device) AS share_pct,
    known,
    try_cast(needed_ns AS BIGINT) AS needed_ns,
    try_cast(known_ns - needed_ns AS BIGINT) AS lost_ns
FROM _summed
ORDER BY device, wall_ns DESC, part, cause;
