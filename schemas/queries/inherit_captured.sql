-- The calls of kernels of launched graphs in the trace $trace_id, by the captures of the graphs. `op` where the captures that fit agree in no more.
SELECT
    g.trace_id,
    g.launch_index,
    l.signature_id,
    'inherited' AS inferred_by,
    'capture: order' AS method,
    g.confidence,
    g.captures::INTEGER AS alternatives,
    g.evidence,
    g.call_id,
    CASE WHEN g.call_id IS NOT NULL THEN g.call_ordinal::INTEGER END AS call_ordinal,
    CASE WHEN g.call_id IS NOT NULL THEN g.call_kernels::INTEGER END AS call_kernels,
    CASE WHEN g.call_id IS NULL THEN g.launch_index ELSE min(g.launch_index) OVER call END AS call_launch,
    g.capture_trace_id AS donor_trace_id,
    NULL::BIGINT AS donor_launch_index,
    g.op_id AS donor_op_id,
    g.capture_trace AS donor_trace,
    CASE WHEN g.call_id IS NULL THEN g.op END AS op
FROM graph_owners AS g
INNER JOIN launches AS l ON g.trace_id = l.trace_id AND g.launch_index = l.launch_index
WHERE g.trace_id = $trace_id AND g.op IS NOT NULL
WINDOW call AS (PARTITION BY g.graph_launch, coalesce(g.op_id, -1 - (g.position - g.call_ordinal)))
ORDER BY g.launch_index;
