-- What computation is made of: the categories with most time, the kernel with most, and how much more all kernels of known work take than the peaks of the GPU
-- need. Kernels under 10 µs that are far from the peaks are limited by neither: nobody knows what they need.
WITH computed AS (
    SELECT
        nullif(category, 'OTHER') AS category, short_name, name_id, n, wall_ns, span_ns,
        CASE WHEN wall_ns >= 10000 * n OR 5 * needed_ns >= wall_ns THEN needed_ns END AS needed_ns
    FROM found_wall
    WHERE part = 'computation'
),

ran AS (
    SELECT category, sum(n) AS n, sum(wall_ns) AS wall_ns, sum(needed_ns) AS needed_ns, sum(wall_ns) FILTER (needed_ns IS NOT NULL) AS known_ns,
        any_value(span_ns) AS span_ns
    FROM computed
    GROUP BY category
),

summed AS (
    SELECT short_name, any_value(name_id) AS name_id, any_value(category) AS category, sum(wall_ns) AS wall_ns
    FROM computed
    WHERE short_name IS NOT NULL
    GROUP BY short_name
),

largest AS (FROM summed ORDER BY wall_ns DESC, short_name LIMIT 1),

-- Of kernels whose names say nothing of their work, the one with most time has to say it.
unnamed AS (FROM summed WHERE category IS NULL ORDER BY wall_ns DESC, short_name LIMIT 1)

SELECT
    NULL::DOUBLE AS at_stake_ns,
    greatest(0, sum(known_ns) - sum(needed_ns))::DOUBLE AS lost_ns,
    sum(wall_ns)::DOUBLE AS total_ns,
    CASE WHEN 2 * sum(known_ns) >= sum(wall_ns) THEN sum(known_ns) END::DOUBLE AS known_ns,
    100 * sum(wall_ns) / any_value(span_ns) AS share_pct,
    string_agg(
        CASE
            WHEN category IS NOT NULL THEN format('{} {:.0f} %', category, 100 * wall_ns / span_ns)
            ELSE format('kernels of other kinds {:.0f} %', 100 * wall_ns / span_ns) || coalesce((SELECT ' (most in ' || short_name || ')' FROM unnamed), '')
        END,
        ', ' ORDER BY wall_ns DESC, category
    ) FILTER (50 * wall_ns >= span_ns) AS mix,
    (SELECT short_name FROM largest) AS kernel,
    coalesce((SELECT category IS NULL FROM largest), false) AS is_named,
    coalesce((SELECT name_id FROM largest) IN (FROM _counted_names), false) AS is_counted
FROM ran
HAVING share_pct >= 25 AND mix IS NOT NULL AND sum(n) >= 10;
