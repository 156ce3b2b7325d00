-- What was open in a thread of the trace $trace_id at $ts_ns: the operators from the outermost on, the module, the annotation, and of the Python frames the
-- innermost one with a line and the innermost one of the user. `forward_op_id` is the forward call of what ran in a thread of autograd.
WITH above AS (
    SELECT name, module, forward_op_id, (start_ns, depth) AS nearness
    FROM ops
    WHERE
        trace_id = $trace_id
        AND process IS NOT DISTINCT FROM $process
        AND thread IS NOT DISTINCT FROM $thread
        AND start_ns <= $ts_ns
        AND (start_ns = $ts_ns OR start_ns + duration_ns > $ts_ns)
),

marks AS (
    SELECT name, kind = 'python_function' AS is_frame, (start_ns, depth) AS nearness
    FROM ranges
    WHERE
        trace_id = $trace_id
        AND process IS NOT DISTINCT FROM $process
        AND thread IS NOT DISTINCT FROM $thread
        AND start_ns <= $ts_ns
        AND start_ns + duration_ns > $ts_ns
        AND device IS NULL
        AND kind NOT IN ('gpu_user_annotation', 'Trace')
),

around AS (
    SELECT
        arg_max(name, nearness) FILTER (NOT is_frame) AS annotation,
        arg_max(name, nearness) FILTER (is_frame AND NOT regexp_matches(name, '^<|^nn\.Module: ')) AS frame,
        arg_max(name, nearness) FILTER (is_frame AND NOT _is_library_frame(name)) AS line
    FROM marks
)

SELECT
    a.*,
    list(o.name ORDER BY o.nearness) AS ops,
    arg_max(o.module, o.nearness) AS module,
    arg_max(o.forward_op_id, o.nearness) AS forward_op_id
FROM around AS a
LEFT JOIN above AS o ON true
GROUP BY ALL;
