-- Communication that nothing hides, without the waiting where that is known.
WITH sent AS (FROM found_places WHERE part = 'communication' AND cause <> 'waiting for a rank')

SELECT
    sum(s.wall_ns)::DOUBLE AS at_stake_ns,
    100 * sum(s.wall_ns) / any_value(s.span_ns) AS share_pct,
    sum(s.n)::BIGINT AS n,
    max(s.longest_ns)::DOUBLE AS longest_ns,
    count(DISTINCT s.short_name) AS kernels,
    2 * coalesce(sum(s.wall_ns) FILTER (s.cause = 'unsplit'), 0) > sum(s.wall_ns) AS is_unsplit,
    any_value(p.kernel) AS kernel,
    any_value(p.line) AS line,
    any_value(p.module) AS module
FROM sent AS s
CROSS JOIN _main_place('sent') AS p
HAVING share_pct >= 3;
