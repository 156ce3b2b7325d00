-- Kernels of which launches of one signature fall into different classes, with the range of what the rule judges by.
WITH judged AS (
    SELECT c.signature_id, c.short_name, coalesce(b.verdict, 'unknown') AS verdict, c.duration_ns, c.compute_pct, c.memory_pct
    FROM bounds AS b
    INNER JOIN launch_counters AS c USING (trace, launch_index)
    WHERE b.rule = $rule AND list_contains($traces::VARCHAR[], b.trace)
),

counted AS (
    SELECT signature_id, verdict, count(*) AS n, sum(duration_ns) AS total_ns FROM judged GROUP BY signature_id, verdict
),

spread AS (
    SELECT
        signature_id,
        any_value(short_name) AS kernel,
        count(*) AS n,
        try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
        min(compute_pct) AS compute_low,
        max(compute_pct) AS compute_high,
        min(memory_pct) AS memory_low,
        max(memory_pct) AS memory_high
    FROM judged
    GROUP BY signature_id
    HAVING count(DISTINCT verdict) > 1
)

SELECT
    s.kernel,
    s.n,
    s.total_ns,
    (
        SELECT string_agg(c.verdict || ' ' || c.n, ', ' ORDER BY c.n DESC, c.verdict)
        FROM counted AS c
        WHERE c.signature_id = s.signature_id
    ) AS verdicts,
    s.compute_low,
    s.compute_high,
    s.memory_low,
    s.memory_high
FROM spread AS s
ORDER BY s.total_ns DESC NULLS LAST, s.kernel, s.signature_id
LIMIT 20;
