-- The kernel with most time under a counter profiler, of traces that have nothing else, and what limits its launches by the rule of ncu.
WITH profiled AS (
    SELECT short_name, signature_id, n, total_ns
    FROM all_rollups
    WHERE trace = $trace AND timing = 'profiled' AND kind = 'kernel'
        AND NOT EXISTS (SELECT 1 FROM all_rollups AS o WHERE o.trace = $trace AND o.timing <> 'profiled')
),

most AS (
    SELECT short_name, sum(n) AS n, sum(total_ns) AS total_ns FROM profiled GROUP BY short_name ORDER BY total_ns DESC NULLS LAST, short_name LIMIT 1
),

judged AS (
    SELECT b.verdict, b.detail
    FROM bounds AS b
    WHERE
        b.trace_id = (SELECT trace_id FROM traces WHERE name = $trace) AND b.rule = 'ncu'
        AND b.signature_id IN (SELECT signature_id FROM profiled WHERE short_name = (SELECT short_name FROM most))
)

SELECT
    NULL::DOUBLE AS at_stake_ns,
    m.total_ns::DOUBLE AS total_ns,
    100 * m.total_ns / (SELECT sum(total_ns) FROM profiled) AS share_pct,
    m.n::BIGINT AS n,
    m.short_name AS kernel,
    (FROM judged SELECT mode(verdict ORDER BY verdict)) AS verdict,
    (FROM judged AS j SELECT mode(j.detail ORDER BY j.detail) WHERE j.verdict = (SELECT mode(verdict ORDER BY verdict) FROM judged)) AS detail
FROM most AS m
WHERE m.total_ns > 0;
