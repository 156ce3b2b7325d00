-- Signatures whose id starts with $prefix: enough of them to show that the prefix is ambiguous.
SELECT s.signature_id, coalesce(n.short_name, n.name) AS kernel
FROM signatures AS s
LEFT JOIN kernel_names AS n USING (name_id)
WHERE starts_with(s.signature_id, $prefix)
ORDER BY s.signature_id
LIMIT 11;
