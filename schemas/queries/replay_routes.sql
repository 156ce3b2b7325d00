-- The selected signatures with the route that replays each, or the reason why none does.
WITH wanted AS (SELECT unnest($signatures::VARCHAR[]) AS signature_id),

launched AS (
    SELECT
        k.signature_id,
        any_value(k.category) AS category,
        any_value(k.kind) AS kind,
        any_value(k.op) AS op,
        any_value(k.level) AS level,
        any_value(k.bytes) AS bytes,
        mode(k.launch_status) AS launch_status,
        count(*) AS n,
        sum(k.duration_ns)::BIGINT AS total_ns,
        any_value(k.name) AS name
    FROM selection AS k
    SEMI JOIN wanted USING (signature_id)
    WHERE k.timing = 'timeline'
    GROUP BY k.signature_id
)

SELECT
    *,
    CASE
        WHEN kind <> 'kernel' THEN CASE WHEN bytes IS NULL THEN 'none' ELSE 'memory' END
        WHEN category = 'COMMUNICATION' THEN 'collective'
        WHEN level = 'call' AND op LIKE 'triton%' THEN 'triton'
        WHEN level = 'call' THEN 'aten'
        WHEN op IS NOT NULL THEN 'none'
        ELSE 'inferred'
    END AS route,
    CASE
        WHEN kind <> 'kernel' THEN CASE WHEN bytes IS NULL THEN 'the size of the copy is not recorded' END
        WHEN category = 'COMMUNICATION' THEN 'a collective needs the other ranks'
        WHEN level = 'call' AND op LIKE 'triton%' THEN 'the source of the Triton kernel is not in the trace'
        WHEN level = 'call' THEN NULL
        WHEN op IS NOT NULL THEN 'no input shapes: record with record_shapes=True'
        WHEN launch_status = 'graph' THEN 'launched by a graph, which hides its operator: record one run without graphs'
        WHEN launch_status = 'before_window' THEN 'launched before the recorded window'
        WHEN launch_status = 'no_op' THEN 'launched outside of any operator'
        ELSE 'the launch is not recorded'
    END AS reason
FROM launched
ORDER BY total_ns DESC, signature_id;
