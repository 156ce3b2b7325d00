-- Iterations of other traces of the same run whose launches have calls: what a CUDA graph ran may be found there.
WITH siblings AS (
    SELECT k.*
    FROM kernels AS k
    INNER JOIN traces AS t ON k.trace = t.name
    INNER JOIN traces AS g ON t.run = g.run AND t.rank IS NOT DISTINCT FROM g.rank
    WHERE g.trace_id = $trace_id AND t.trace_id <> $trace_id AND t.trace_id IN (SELECT o.trace_id FROM op_tensors AS o)
)

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
INNER JOIN traces AS t ON i.trace = t.name
WHERE i.iteration IS NOT NULL
ORDER BY i.trace, i.device, i.start_ns;
