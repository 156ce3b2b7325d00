-- The wanted launches whose operator call is not recorded, with the reason.
WITH wanted AS (SELECT unnest($signatures::VARCHAR[]) AS signature_id)

SELECT
    k.trace_id,
    k.trace,
    k.source,
    k.launch_index,
    k.signature_id,
    k.category,
    k.kind,
    k.name,
    k.duration_ns,
    CASE
        WHEN k.source = 'xla' THEN 'code that XLA generated or called, which is not in the trace'
        WHEN k.level IN ('launch', 'total') AND k.op IS NOT NULL AND k.inferred_by IS NULL THEN 'recorded without input shapes'
        WHEN k.launch_status = 'graph' THEN 'launched by a graph, which hides its operator'
        WHEN k.launch_status = 'before_window' THEN 'launched before the recorded window'
        WHEN k.launch_status = 'no_op' THEN 'launched outside of any recorded operator'
        ELSE 'the profiler records no operators'
    END AS reason
FROM selection AS k
SEMI JOIN wanted USING (signature_id)
WHERE k.timing = $timing AND k.level <> 'call'
ORDER BY k.trace_id, k.launch_index;
