-- The main findings of Nsight Compute's rules about the signatures $signatures: the largest estimated speedups first, information left out.
SELECT
    rule,
    kind,
    max(speedup_pct) AS speedup_pct,
    speedup_kind,
    count(DISTINCT (trace_id, launch_index)) AS launches,
    arg_max(message, (coalesce(speedup_pct, -1), launch_index)) AS message
FROM ncu_rules
WHERE list_contains($signatures, signature_id) AND kind <> 'INF'
GROUP BY rule, section, kind, speedup_kind
ORDER BY speedup_kind IS DISTINCT FROM 'global', speedup_pct DESC NULLS LAST, kind, rule, section
LIMIT 6;
