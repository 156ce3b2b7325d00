-- Kernels of replayed steps that took another time than recorded, or have none, with the cause as far as it is known.
SELECT
    t.name AS trace,
    k.mode,
    n.short_name AS kernel,
    o.op,
    sum(k.launches)::BIGINT AS launches,
    sum(k.recorded_ns)::BIGINT AS recorded_ns,
    sum(k.replay_ns)::BIGINT AS replay_ns,
    sum(k.replay_ns) / nullif(sum(k.recorded_ns) FILTER (k.replay_ns IS NOT NULL), 0) AS agreement,
    max(k.grade) AS grade,
    k.cause
FROM step_kernels AS k
INNER JOIN step_replays AS r ON k.run_id = r.run_id AND k.step_id = r.step_id AND k.mode = r.mode
INNER JOIN signatures AS s ON k.signature_id = s.signature_id
INNER JOIN kernel_names AS n ON s.name_id = n.name_id
LEFT JOIN op_calls AS o ON s.call_id = o.call_id
LEFT JOIN traces AS t ON r.recorded_trace = t.trace_id
WHERE list_contains($run_ids::VARCHAR[], k.run_id) AND k.cause IS NOT NULL
GROUP BY t.name, k.mode, n.short_name, o.op, k.cause
ORDER BY recorded_ns DESC, t.name, k.mode, kernel, o.op, k.cause;
