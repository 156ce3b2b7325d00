-- The time in which the GPU waited for launches, where nothing known held up the host: `$kind` is short or long (a millisecond and more) for launches one by
-- one, and graph. What such a launch then took to start is part of it. Between
-- `$least` and `$most` pauses.
WITH waits AS (
    SELECT * REPLACE (CASE $kind WHEN 'short' THEN wall_ns - long_ns WHEN 'long' THEN long_ns ELSE wall_ns END AS wall_ns,
        CASE $kind WHEN 'short' THEN n - long_n WHEN 'long' THEN long_n ELSE n END AS n)
    FROM found_places
    WHERE cause = 'launching' AND coalesce(is_graph, false) = ($kind = 'graph') AND CASE $kind WHEN 'short' THEN n > long_n WHEN 'long' THEN long_n > 0 ELSE true END
),

started AS (
    SELECT coalesce(sum(wall_ns), 0) AS latency_ns
    FROM found_places
    WHERE cause = 'launch latency' AND $kind <> 'long' AND coalesce(is_graph, false) = ($kind = 'graph')
)

SELECT
    (sum(w.wall_ns) + any_value(s.latency_ns))::DOUBLE AS at_stake_ns,
    any_value(s.latency_ns)::DOUBLE AS latency_ns,
    100 * (sum(w.wall_ns) + any_value(s.latency_ns)) / any_value(w.span_ns) AS share_pct,
    sum(w.n)::BIGINT AS n,
    at_stake_ns / sum(w.n) AS mean_ns,
    max(w.longest_ns)::DOUBLE AS longest_ns,
    any_value(r.median_kernel_ns) AS median_kernel_ns,
    any_value(p.line) AS line,
    any_value(p.module) AS module,
    arg_max(w.short_name, (w.longest_ns, w.short_name)) AS kernel
FROM waits AS w
CROSS JOIN _main_place('waits') AS p
CROSS JOIN found_typical AS r
CROSS JOIN started AS s
HAVING share_pct >= 3 AND sum(w.n) BETWEEN $least AND $most;
