-- The selected signatures whose call is recorded, and copies but for the launches `covered` (see replay_copies).
WITH wanted AS (SELECT unnest($signatures::VARCHAR[]) AS signature_id),

covered AS (SELECT unnest($covered::VARCHAR[]) AS place),

launched AS (
    SELECT
        k.signature_id,
        any_value(k.category) AS category,
        any_value(k.kind) AS kind,
        any_value(k.op) AS op,
        count(*) AS n,
        try_cast(sum(k.duration_ns) AS BIGINT) AS total_ns,
        any_value(k.name) AS name
    FROM selection AS k
    SEMI JOIN wanted USING (signature_id)
    WHERE
        k.timing = $timing
        AND (k.level = 'call' OR k.kind <> 'kernel')
        AND concat_ws(' ', k.trace_id, k.launch_index) NOT IN (SELECT place FROM covered)
    GROUP BY k.signature_id
)

SELECT signature_id, category, kind, op, name, n, total_ns
FROM launched
ORDER BY total_ns DESC NULLS LAST, signature_id;
