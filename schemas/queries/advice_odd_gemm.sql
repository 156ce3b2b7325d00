-- Matrix products with a side for which no fast kernel is made (`odd_side`).
WITH summed AS (
    SELECT
        dtype,
        odd_side AS side,
        sum(n) AS n,
        sum(wall_ns) AS wall_ns,
        sum(needed_ns) AS needed_ns,
        any_value(span_ns) AS span_ns,
        arg_max(format('{}×{}×{}', gemm_m, gemm_n, gemm_k), (wall_ns, gemm_m, gemm_n, gemm_k)) AS size,
        arg_max(op, (wall_ns, op)) AS op,
        arg_max(line, (wall_ns, line)) AS line,
        arg_max(module, (wall_ns, module)) AS module
    FROM found_places
    WHERE odd_side IS NOT NULL
    GROUP BY ALL
)

SELECT
    coalesce(wall_ns - needed_ns, wall_ns)::DOUBLE AS at_stake_ns,
    wall_ns::DOUBLE AS total_ns,
    100 * wall_ns / span_ns AS share_pct,
    n::BIGINT AS n,
    size,
    dtype,
    side,
    8 * ceil(side / 8)::BIGINT AS padded,
    op,
    line,
    module
FROM summed
WHERE share_pct >= 3
ORDER BY wall_ns DESC, side, dtype
LIMIT 1;
