-- What the rules of Nsight Compute say of the selected profiled launches: a row per kernel, rule and message, the largest estimated speedups of whole kernels first.
-- $everything adds what is only information.
WITH chosen AS (
    SELECT coalesce(p.primary_trace_id, s.trace_id) AS trace_id, coalesce(p.primary_launch_index, s.launch_index) AS launch_index
    FROM selection AS s
    LEFT JOIN launch_prints AS p ON s.trace_id = p.trace_id AND s.launch_index = p.launch_index
    WHERE s.timing = 'profiled'
)

SELECT
    r.short_name AS kernel,
    r.rule,
    r.kind,
    max(r.speedup_pct) AS speedup_pct,
    r.speedup_kind,
    count(DISTINCT (r.trace_id, r.launch_index)) AS launches,
    arg_max(r.message, (coalesce(r.speedup_pct, -1), r.launch_index)) AS message,
    min(r.trace) AS trace,
    r.signature_id
FROM ncu_rules AS r
WHERE
    (r.trace_id, r.launch_index) IN (SELECT (trace_id, launch_index) FROM chosen)
    AND ($everything OR r.kind IS DISTINCT FROM 'INF' OR r.speedup_pct IS NOT NULL)
GROUP BY r.signature_id, r.short_name, r.section, r.rule, r.kind, r.speedup_kind
ORDER BY r.speedup_kind IS DISTINCT FROM 'global', speedup_pct DESC NULLS LAST, r.kind, kernel, r.rule, r.signature_id, r.section;
