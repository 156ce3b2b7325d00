-- The time in which the GPU waited for launches, where nothing known held up the host: `$kind` is short or long (a millisecond and more) for launches one by
-- one, and graph. What such a launch then took to start is part of it. Between
-- `$least` and `$most` pauses. `doing` is what the host did for at least half of the longest one (`_host_doing`), if that lasts 200 µs and more, and `$kind` is long.
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
),

longest AS (
    SELECT trace_id, launch_index, longest_ns
    FROM waits
    WHERE $kind = 'long' AND longest_ns >= 200000
    ORDER BY longest_ns DESC, launch_index
    LIMIT 1
),

-- It ends with the call of the launch.
before AS (
    SELECT 1 AS gap, a.trace_id, a.process, a.thread, a.start_ns - p.longest_ns AS start_ns, a.start_ns - p.longest_ns AS since_ns, a.start_ns AS end_ns
    FROM longest AS p
    INNER JOIN launches AS l USING (trace_id, launch_index)
    INNER JOIN api_calls AS a ON l.trace_id = a.trace_id AND l.api_index = a.api_index
),

did AS (FROM _host_doing('before'))

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
    arg_max(w.short_name, (w.longest_ns, w.short_name)) AS kernel,
    any_value(d.doing.name) AS frame,
    regexp_replace(frame, '^(.*)\((\d+)\): (.*)$', '\3 (\1:\2)') AS doing,
    regexp_replace(frame, '^(.*)\((\d+)\): (.*)$', '\3') AS doing_name,
    any_value(d.doing.covered_ns)::DOUBLE AS frame_ns
FROM waits AS w
CROSS JOIN _main_place('waits') AS p
CROSS JOIN found_typical AS r
CROSS JOIN started AS s
LEFT JOIN did AS d ON true
HAVING share_pct >= 3 AND sum(w.n) BETWEEN $least AND $most;
