-- Copies between host and GPU that nothing hides, with the time in which their calls held up the host; the direction with most of it.
WITH copies AS (
    SELECT *, CASE WHEN part = 'host' THEN 'HtoD' ELSE copy_kind END AS direction
    FROM found_places
    WHERE (part = 'copy' AND copy_kind IN ('HtoD', 'DtoH') AND op IS DISTINCT FROM 'aten::_local_scalar_dense') OR (part = 'host' AND cause = 'blocking copy')
),

most AS (
    FROM copies
    WHERE direction = (SELECT direction FROM copies GROUP BY direction ORDER BY sum(wall_ns) DESC, direction LIMIT 1)
)

SELECT
    sum(m.wall_ns)::DOUBLE AS at_stake_ns,
    100 * sum(m.wall_ns) / any_value(m.span_ns) AS share_pct,
    coalesce(sum(m.n) FILTER (m.part = 'copy'), 0)::BIGINT AS n,
    coalesce(sum(m.wall_ns) FILTER (m.part = 'host'), 0)::DOUBLE AS host_ns,
    any_value(CASE m.direction WHEN 'HtoD' THEN 'from the host to the GPU' ELSE 'from the GPU to the host' END) AS direction,
    coalesce(bool_or(contains(m.short_name, 'Pageable') AND m.part = 'copy'), false) AS is_pageable,
    any_value(p.line) AS line,
    any_value(p.module) AS module,
    any_value(p.op) AS op
FROM most AS m
CROSS JOIN _main_place('most') AS p
HAVING share_pct >= 2;
