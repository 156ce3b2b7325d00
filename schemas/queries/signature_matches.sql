-- Signatures that are likely the same work as $signature_id elsewhere.
SELECT m.other_id AS signature_id, m.method, m.candidates, coalesce(n.short_name, n.name) AS kernel
FROM signature_matches AS m
INNER JOIN signatures AS s ON s.signature_id = m.other_id
LEFT JOIN kernel_names AS n USING (name_id)
WHERE m.signature_id = $signature_id
ORDER BY m.candidates, m.other_id
LIMIT 20;
