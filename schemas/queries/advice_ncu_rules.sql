-- What Nsight Compute itself estimates to save most: the speed-up of a rule × the time in this trace of launches of the same kernel with the same grid and block,
-- by traces of its run. Launches that the rule was asked about and said nothing of save nothing.
WITH advised AS (
    FROM ncu_rules
    WHERE trace IN (SELECT name FROM traces WHERE run = (SELECT run FROM traces WHERE name = $trace))
),

profiled AS (
    SELECT s.launch_key, count(*) AS n
    FROM launches AS l
    INNER JOIN signatures AS s USING (signature_id)
    ANTI JOIN launch_prints AS p ON l.trace_id = p.trace_id AND l.launch_index = p.launch_index
    WHERE l.trace_id IN (SELECT trace_id FROM advised) AND l.timing = 'profiled'
    GROUP BY s.launch_key
),

of_launches AS (
    SELECT trace_id, launch_index, signature_id, short_name, rule, max(speedup_pct) AS speedup_pct, arg_max(message, (speedup_pct, message)) AS message
    FROM advised
    WHERE kind = 'OPT' AND speedup_kind = 'global' AND speedup_pct > 0 AND message <> ''
    GROUP BY ALL
),

ruled AS (
    SELECT s.launch_key, a.short_name, a.rule, sum(a.speedup_pct) AS speedup_pct, arg_max(a.message, (a.speedup_pct, a.message)) AS message
    FROM of_launches AS a
    INNER JOIN signatures AS s USING (signature_id)
    GROUP BY ALL
),

spent AS (
    SELECT s.launch_key, sum(r.n) AS n, sum(r.total_ns) AS total_ns
    FROM kernel_rollups AS r
    INNER JOIN signatures AS s USING (signature_id)
    WHERE r.trace = $trace
    GROUP BY s.launch_key
),

estimated AS (
    SELECT
        r.short_name AS kernel,
        r.rule,
        sum(s.n) AS n,
        sum(s.total_ns) AS total_ns,
        sum(s.total_ns * r.speedup_pct / p.n / 100) AS at_stake_ns,
        arg_max(r.message, (s.total_ns * r.speedup_pct / p.n, r.message)) AS message
    FROM ruled AS r
    INNER JOIN profiled AS p USING (launch_key)
    INNER JOIN spent AS s USING (launch_key)
    GROUP BY ALL
    HAVING sum(s.total_ns) > 0
)

SELECT
    at_stake_ns::DOUBLE AS at_stake_ns,
    total_ns::DOUBLE AS total_ns,
    n::BIGINT AS n,
    100 * total_ns / (SELECT sum(total_ns) FROM spent) AS share_pct,
    kernel,
    rule,
    100 * at_stake_ns / total_ns AS speedup_pct,
    (SELECT count(DISTINCT kernel) > 1 FROM estimated) AS has_others,
    -- The first sentence with a figure: others say what a term means.
    coalesce(
        list_filter(
            regexp_extract_all(message, '\s*((?:[^.]|\.\S)+\.)(?:\s|$)', 1),
            lambda said : length(said) BETWEEN 20 AND 300 AND regexp_matches(said, '\d') AND NOT contains(said, 'is defined as')
        )[1],
        regexp_extract(message, '^(.{20,240}?[.:])(\s|$)', 1)
    ) AS message
FROM estimated
ORDER BY at_stake_ns DESC, kernel, rule
LIMIT 1;
