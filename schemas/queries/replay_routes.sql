-- The selected signatures whose call is recorded, and copies but for the launches `covered` (see replay_copies), with the route that
-- replays each, or the reason why none does.
WITH wanted AS (SELECT unnest($signatures::VARCHAR[]) AS signature_id),

covered AS (SELECT unnest($covered::VARCHAR[]) AS place),

launched AS (
    SELECT
        k.signature_id,
        any_value(k.category) AS category,
        any_value(k.kind) AS kind,
        any_value(k.op) AS op,
        any_value(k.level) AS level,
        any_value(k.bytes) AS bytes,
        any_value(c.extra) AS extra,
        count(*) AS n,
        try_cast(sum(k.duration_ns) AS BIGINT) AS total_ns,
        any_value(k.name) AS name
    FROM selection AS k
    SEMI JOIN wanted USING (signature_id)
    LEFT JOIN op_calls AS c ON k.call_id = c.call_id
    WHERE
        k.timing = $timing
        AND (k.level = 'call' OR k.kind <> 'kernel')
        AND concat_ws(' ', k.trace_id, k.launch_index) NOT IN (SELECT place FROM covered)
    GROUP BY k.signature_id
)

SELECT
    signature_id,
    category,
    kind,
    name,
    n,
    total_ns,
    CASE
        WHEN kind <> 'kernel' THEN CASE WHEN bytes IS NULL THEN 'none' ELSE 'memory' END
        WHEN category = 'COMMUNICATION' THEN 'collective'
        WHEN contains(extra, '"kernel_hash"') OR contains(extra, '"kernel_backend"') THEN 'triton'
        ELSE 'aten'
    END AS route,
    CASE
        WHEN kind <> 'kernel' THEN CASE WHEN bytes IS NULL THEN 'the size of the copy is not recorded' END
        WHEN category = 'COMMUNICATION' THEN 'a collective needs the other ranks'
    END AS reason
FROM launched
ORDER BY total_ns DESC NULLS LAST, signature_id;
