-- Iterations of the traces of the selected launches that have an Execution Trace, which tells the tensors of their calls, and of the traces $graphs,
-- whose calls another trace has: that of the capture of their graphs.
WITH traced AS (
    SELECT t.trace_id, t.name
    FROM traces AS t
    WHERE
        t.trace_id IN (SELECT s.trace_id FROM selection AS s)
        AND (t.trace_id IN (SELECT o.trace_id FROM op_tensors AS o) OR list_contains($graphs::VARCHAR[], t.trace_id))
    QUALIFY row_number() OVER (PARTITION BY list_contains($graphs::VARCHAR[], t.trace_id) ORDER BY t.trace_id) <= $traces
),

siblings AS (SELECT k.* FROM kernels AS k WHERE k.trace IN (SELECT t.name FROM traced AS t))

SELECT
    t.trace_id,
    i.trace,
    i.device,
    i.iteration,
    i.label,
    i.steady_state,
    i.launches,
    i.first_launch_index,
    i.last_launch_index
FROM iterations('siblings') AS i
INNER JOIN traced AS t ON i.trace = t.name
WHERE i.iteration IS NOT NULL AND i.launches <= $launches
ORDER BY i.trace, i.device, i.start_ns;
