-- What a timeline viewer shows of the traces of `selection`: its launches, and the operators, calls and ranges of their traces.
WITH wanted AS (
    SELECT DISTINCT trace_id, trace FROM selection WHERE timing = 'timeline'
),

events AS (
    SELECT
        trace,
        'launch' AS what,
        CASE kind WHEN 'kernel' THEN 'kernel' ELSE 'gpu_' || kind END AS category,
        'GPU ' || coalesce(device::VARCHAR, '?') AS process,
        'stream ' || coalesce(stream::VARCHAR, '?') AS track,
        name,
        start_ns,
        duration_ns,
        launch_index AS number,
        correlation_id,
        {
            category: category, op: op, inferred_by: inferred_by, input_dims: input_dims, input_dtypes: input_dtypes,
            grid: list_filter([grid_x, grid_y, grid_z], lambda axis: axis IS NOT NULL),
            block: list_filter([block_x, block_y, block_z], lambda axis: axis IS NOT NULL),
            registers: registers, shared_bytes: shared_bytes, bytes: bytes, phase: phase, signature: signature_id
        } AS args
    FROM selection
    WHERE timing = 'timeline' AND start_ns IS NOT NULL
    UNION ALL BY NAME
    SELECT
        w.trace, 'op' AS what, 'cpu_op' AS category, 'process ' || coalesce(o.process, '?') AS process, 'thread ' || coalesce(o.thread, '?') AS track,
        o.name, o.start_ns, o.duration_ns, o.op_id AS number, NULL::BIGINT AS correlation_id, NULL AS args
    FROM ops AS o
    INNER JOIN wanted AS w USING (trace_id)
    WHERE o.start_ns IS NOT NULL
    UNION ALL BY NAME
    SELECT
        w.trace, 'api' AS what, a.kind AS category, 'process ' || coalesce(a.process, '?') AS process, 'thread ' || coalesce(a.thread, '?') AS track,
        a.name, a.start_ns, a.duration_ns, a.api_index AS number, a.correlation_id, NULL AS args
    FROM api_calls AS a
    INNER JOIN wanted AS w USING (trace_id)
    WHERE a.start_ns IS NOT NULL
    UNION ALL BY NAME
    SELECT
        w.trace, 'range' AS what, r.kind AS category,
        CASE WHEN r.device IS NULL THEN 'process ' || coalesce(r.process, '?') ELSE 'GPU ' || r.device END AS process,
        CASE
            WHEN r.device IS NULL THEN 'thread ' || coalesce(r.thread, '?') ELSE 'ranges of stream ' || coalesce(r.stream::VARCHAR, '?')
        END AS track,
        r.name, r.start_ns, r.duration_ns, r.range_id AS number, NULL::BIGINT AS correlation_id, NULL AS args
    FROM ranges AS r
    INNER JOIN wanted AS w USING (trace_id)
    WHERE r.start_ns IS NOT NULL AND r.kind <> 'python_function'
)

SELECT
    trace,
    dense_rank() OVER (ORDER BY trace) AS trace_number,
    what,
    category,
    process,
    track,
    name,
    start_ns - min(start_ns) OVER () AS start_ns,
    coalesce(duration_ns, 0) AS duration_ns,
    correlation_id,
    CASE WHEN args IS NULL THEN NULL ELSE to_json(args)::VARCHAR END AS args
FROM events
ORDER BY start_ns, duration_ns DESC, trace_number, what, number;
