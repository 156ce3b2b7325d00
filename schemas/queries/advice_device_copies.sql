-- Copies within the GPU that nothing hides: nothing computes meanwhile.
WITH copies AS (FROM found_places WHERE part = 'copy' AND copy_kind IS DISTINCT FROM 'HtoD' AND copy_kind IS DISTINCT FROM 'DtoH')

SELECT
    sum(c.wall_ns)::DOUBLE AS at_stake_ns,
    100 * sum(c.wall_ns) / any_value(c.span_ns) AS share_pct,
    sum(c.n)::BIGINT AS n,
    any_value(p.line) AS line,
    any_value(p.module) AS module,
    any_value(p.op) AS op
FROM copies AS c
CROSS JOIN _main_place('copies') AS p
HAVING share_pct >= 5;
