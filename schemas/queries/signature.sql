-- Everything that the dimension tables hold about the signature $signature_id.
SELECT s.*, n.* EXCLUDE (name_id, kind, deriver_version), c.extra
FROM signatures AS s
LEFT JOIN kernel_names AS n USING (name_id)
LEFT JOIN op_calls AS c USING (call_id)
WHERE s.signature_id = $signature_id;
