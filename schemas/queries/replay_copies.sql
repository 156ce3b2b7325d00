-- The wanted copies and fills that replay by their bytes alone: all but the launches `covered` ("trace_id launch_index"), which replay
-- as part of an operator call.
WITH covered AS (SELECT unnest($covered::VARCHAR[]) AS place)

SELECT
    k.signature_id,
    any_value(k.name) AS name,
    any_value(k.kind) AS kind,
    any_value(k.category) AS category,
    any_value(k.bytes) AS bytes,
    any_value(k.copy_kind) AS copy_kind,
    count(*) AS launches,
    median(k.duration_ns)::BIGINT AS median_ns,
    try_cast(sum(k.duration_ns) AS BIGINT) AS total_ns
FROM selection AS k
WHERE
    k.timing = $timing
    AND k.kind <> 'kernel'
    AND k.bytes IS NOT NULL
    AND list_contains($signatures::VARCHAR[], k.signature_id)
    AND concat_ws(' ', k.trace_id, k.launch_index) NOT IN (SELECT place FROM covered)
GROUP BY k.signature_id
ORDER BY total_ns DESC, k.signature_id;
