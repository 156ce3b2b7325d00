-- Operators that were found for launches recorded without one stand apart: "aten::mm (inherited)".
SELECT op || coalesce(' (' || found_by || ')', '') AS op, n, total_ns, mean_ns, share_pct
FROM operators
WHERE trace = $trace AND timing <> 'profiled' AND op IS NOT NULL
ORDER BY total_ns DESC, operators.op, found_by
LIMIT 15;
