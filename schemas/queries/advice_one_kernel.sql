-- The kernel with most time: of the wall time where there is a timeline, else of the GPU time. Copies and fills have no counters to look at, and the time of a
-- collective is that of the slowest rank: other rules are about these, and about softmax and matrix-vector products that take much (`spoken`). What takes under 10 µs
-- and runs less than ten times says nothing. Where its
-- work is not known, nobody knows what is at stake: it is ranked as if that were a third (`rank_ns`). From `$near_pct` % of a peak on, little of what the peak itself
-- would save (`beyond_ns`) can be gained: nothing is said to be at stake, and a tenth of it ranks the kernel. `reached_pct` is how near it is to the peaks of the GPU, NULL where its work is not
-- known.
WITH spoken AS (
    SELECT category
    FROM found_wall
    WHERE part = 'computation'
    GROUP BY category
    HAVING (category = 'SOFTMAX' AND sum(n) >= 10 AND 100 * sum(wall_ns) >= any_value(span_ns)) OR (category = 'GEMV' AND 5 * sum(wall_ns) >= any_value(span_ns))
),

ran AS (
    SELECT name_id, short_name, is_compute, n, wall_ns, needed_ns, span_ns, line, module, level, dtype, gemm_m, gemm_n, gemm_k
    FROM found_places
    WHERE
        part = 'computation' AND kind = 'kernel' AND odd_side IS NULL
        AND coalesce(category NOT IN (SELECT category FROM spoken), true)
),

summed AS (
    SELECT
        name_id,
        any_value(short_name) AS kernel,
        sum(n) AS n,
        sum(wall_ns) AS total_ns,
        100 * sum(wall_ns) / any_value(span_ns) AS share_pct,
        sum(needed_ns) AS needed_ns,
        sum(wall_ns) FILTER (needed_ns IS NOT NULL) AS known_ns,
        sum(n) FILTER (needed_ns IS NOT NULL) AS known,
        bool_or(is_compute) FILTER (needed_ns IS NOT NULL) AS is_compute,
        'wall time' AS whole
    FROM ran
    GROUP BY name_id
    HAVING share_pct >= 10 AND (sum(n) >= 10 OR sum(wall_ns) >= 10000 * sum(n))
    UNION ALL
    SELECT name_id, short_name, n, total_ns, share_pct, NULL, NULL, NULL, NULL, 'GPU time'
    FROM top_kernels()
    WHERE
        trace = $trace AND timing <> 'profiled' AND share_pct >= 10 AND kind = 'kernel' AND coalesce(category NOT IN ('COMMUNICATION', 'GEMV'), true)
        AND NOT EXISTS (FROM found_places)
),

most AS (FROM summed ORDER BY total_ns DESC, name_id LIMIT 1),

launched AS (SELECT r.* FROM ran AS r INNER JOIN most USING (name_id))

SELECT
    CASE WHEN 2 * m.known_ns >= m.total_ns THEN m.known_ns - m.needed_ns END::DOUBLE AS beyond_ns,
    CASE WHEN 2 * m.known_ns >= m.total_ns THEN 100 * m.needed_ns / m.known_ns END AS reached_pct,
    CASE WHEN reached_pct < $near_pct THEN beyond_ns END AS at_stake_ns,
    CASE WHEN reached_pct >= $near_pct THEN beyond_ns / 10 ELSE coalesce(beyond_ns, m.total_ns / 3) END::DOUBLE AS rank_ns,
    m.kernel,
    m.total_ns::DOUBLE AS total_ns,
    m.share_pct,
    m.n::BIGINT AS n,
    m.known::BIGINT AS known,
    m.total_ns / m.n AS mean_ns,
    m.whole,
    m.is_compute,
    m.name_id IN (FROM _counted_names) AS is_counted,
    EXISTS (FROM launched WHERE level = 'call') AS is_called,
    (
        SELECT arg_max(concat_ws(' ', 'gemm', format('{}×{}×{}', gemm_m, gemm_n, gemm_k), dtype), (wall_ns, gemm_m, gemm_n, gemm_k))
        FROM launched
        WHERE gemm_m IS NOT NULL
    ) AS size,
    p.line,
    p.module
FROM most AS m
CROSS JOIN (
    SELECT any_value(line) AS line, any_value(module) AS module
    FROM (
        SELECT
            (SELECT line FROM launched WHERE line IS NOT NULL GROUP BY line HAVING 5 * sum(wall_ns) >= (SELECT sum(wall_ns) FROM launched)
                ORDER BY sum(wall_ns) DESC, line LIMIT 1) AS line,
            (SELECT module FROM launched WHERE module IS NOT NULL GROUP BY module HAVING 5 * sum(wall_ns) >= (SELECT sum(wall_ns) FROM launched)
                ORDER BY sum(wall_ns) DESC, module LIMIT 1) AS module
    )
) AS p;
