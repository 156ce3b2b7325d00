-- What threads of the host did: annotations, Python frames, operators, API calls.
WITH _ids AS (
    SELECT trace_id FROM traces WHERE name = $trace
),

_found AS (
    SELECT
        CASE WHEN kind = 'python_function' THEN 'Python' ELSE 'annotations' END AS lane,
        process,
        thread,
        name,
        start_ns,
        duration_ns,
        NULL::BIGINT AS api_index,
        NULL::BIGINT AS op_id
    FROM ranges
    WHERE trace_id IN (FROM _ids) AND device IS NULL AND kind NOT IN ('gpu_user_annotation', 'Trace')
    UNION ALL
    SELECT 'operators', process, thread, name, start_ns, duration_ns, NULL, op_id
    FROM ops WHERE trace_id IN (FROM _ids)
    UNION ALL
    SELECT 'API calls', process, thread, name, start_ns, duration_ns, api_index, op_id
    FROM api_calls WHERE trace_id IN (FROM _ids)
)

SELECT
    'process ' || coalesce(process, '?') || ', thread ' || coalesce(thread, '?') AS place,
    lane,
    name,
    start_ns,
    duration_ns,
    api_index,
    op_id
FROM _found
WHERE start_ns IS NOT NULL AND duration_ns >= 0
ORDER BY place, array_position(['annotations', 'Python', 'operators', 'API calls'], lane), start_ns, duration_ns DESC, name;
