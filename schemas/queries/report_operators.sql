-- Operators that were found for launches recorded without one stand apart: "aten::mm (inherited)".
SELECT t.op || coalesce(' (' || t.inferred_by || ')', '') AS op, t.n, t.total_ns, t.mean_ns, t.share_pct
FROM time_by('op, inferred_by') AS t
WHERE t.trace = $trace AND t.timing <> 'profiled' AND t.op IS NOT NULL
ORDER BY t.total_ns DESC, t.op, t.inferred_by
LIMIT 15;
