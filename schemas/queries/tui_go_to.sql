-- What $text names: the trace of that name, or the one signature whose id starts with $id.
SELECT 'trace' AS what, name AS target
FROM traces
WHERE name = $text
UNION ALL
SELECT 'signature' AS what, any_value(signature_id) AS target
FROM signatures
WHERE length($id) >= 4 AND starts_with(signature_id, $id)
HAVING count(*) = 1;
