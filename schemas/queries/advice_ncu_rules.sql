-- What Nsight Compute itself estimates to save most: the speed-up of a rule on a kernel of the same run times the time of that kernel in this trace.
WITH spent AS (
    SELECT s.short_name, sum(r.total_ns) AS total_ns
    FROM kernel_rollups AS r
    INNER JOIN _named_signatures AS s USING (signature_id)
    WHERE r.trace = $trace
    GROUP BY s.short_name
),

ruled AS (
    SELECT short_name, rule, avg(speedup_pct) AS speedup_pct, arg_max(message, (speedup_pct, message)) AS message
    FROM ncu_rules
    WHERE
        trace IN (SELECT name FROM traces WHERE run = (SELECT run FROM traces WHERE name = $trace))
        AND kind = 'OPT'
        AND speedup_kind = 'global' AND speedup_pct > 0
    GROUP BY short_name, rule
)

SELECT
    (s.total_ns * r.speedup_pct / 100)::DOUBLE AS at_stake_ns,
    s.total_ns::DOUBLE AS total_ns,
    100 * s.total_ns / (SELECT sum(total_ns) FROM spent) AS share_pct,
    r.short_name AS kernel,
    r.rule,
    r.speedup_pct,
    -- The first sentence with a figure: others say what a term means.
    coalesce(
        list_filter(
            regexp_extract_all(r.message, '\s*((?:[^.]|\.\S)+\.)(?:\s|$)', 1),
            lambda said : length(said) BETWEEN 20 AND 300 AND regexp_matches(said, '\d') AND NOT contains(said, 'is defined as')
        )[1],
        regexp_extract(r.message, '^(.{20,240}?[.:])(\s|$)', 1)
    ) AS message
FROM ruled AS r
INNER JOIN spent AS s USING (short_name)
WHERE message <> ''
ORDER BY at_stake_ns DESC, kernel, rule
LIMIT 1;
