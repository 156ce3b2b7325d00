-- Matrix products with a side for which no fast kernel is made (`odd_side`). Sides from 10,000 on are vocabularies rather than tokens, and go to a multiple of
-- 64. Batches of products beside a softmax of its own are attention, which a fused kernel does without them: another rule is about it.
WITH softmax AS (
    FROM found_wall WHERE part = 'computation' AND category = 'SOFTMAX'
),

spoken AS (
    FROM softmax SELECT sum(n) AS n HAVING sum(n) >= 10 AND 100 * sum(wall_ns) >= any_value(span_ns)
),

summed AS (
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
    WHERE odd_side IS NOT NULL AND NOT (EXISTS (FROM spoken) AND coalesce(op IN ('aten::bmm', 'aten::baddbmm'), false))
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
    CASE WHEN side >= 10000 THEN 64 ELSE 8 END AS multiple,
    multiple * ceil(side / multiple)::BIGINT AS padded,
    op,
    line,
    module
FROM summed
WHERE share_pct >= 3
ORDER BY wall_ns DESC, side, dtype
LIMIT 1;
