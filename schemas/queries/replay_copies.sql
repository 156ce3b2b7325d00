-- The wanted copies and fills, which replay by their bytes alone.
SELECT
    k.signature_id,
    any_value(k.name) AS name,
    any_value(k.kind) AS kind,
    any_value(k.bytes) AS bytes,
    any_value(k.copy_kind) AS copy_kind,
    count(*) AS launches,
    median(k.duration_ns)::BIGINT AS median_ns,
    sum(k.duration_ns)::BIGINT AS total_ns
FROM selection AS k
WHERE k.timing = 'timeline' AND k.kind <> 'kernel' AND k.bytes IS NOT NULL AND list_contains($signatures::VARCHAR[], k.signature_id)
GROUP BY k.signature_id
ORDER BY total_ns DESC, k.signature_id;
