SELECT r.name AS annotation, k.name AS kernel
FROM kernels AS k
INNER JOIN ranges AS r
    ON
        k.trace_id = r.trace_id
        AND k.device = r.device
        AND k.stream = r.stream
        AND k.start_ns >= r.start_ns
        AND k.end_ns <= r.start_ns + r.duration_ns
WHERE k.trace = $trace AND k.correlation_id = $correlation AND r.kind = 'gpu_user_annotation'
ORDER BY r.duration_ns
LIMIT 1;
