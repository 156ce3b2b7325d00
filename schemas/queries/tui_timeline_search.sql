-- The next event after (or, $forward being false, before) $at_ns of the axis with $text in its name: a launch or an event of the host.
WITH placed AS (
    SELECT
        unnest($traces::VARCHAR[]) AS trace_id,
        unnest($shifts::BIGINT[]) AS shift_ns,
        unnest($numbers::USMALLINT[]) AS number
),

names AS (
    SELECT s.signature_id
    FROM signatures AS s
    LEFT JOIN kernel_names AS n ON s.name_id = n.name_id
    WHERE contains(lower(coalesce(n.name, s.copy_kind, s.kind)), $text) OR contains(lower(n.short_name), $text)
),

found AS (
    SELECT 'launch' AS kind, trace_id, NULL AS process, NULL AS thread, start_ns, launch_index AS id
    FROM launches
    WHERE timing = 'timeline' AND signature_id IN (FROM names)
    UNION ALL
    SELECT CASE WHEN kind = 'python_function' THEN 'Python' ELSE 'annotations' END, trace_id, process, thread, start_ns, range_id
    FROM ranges
    WHERE device IS NULL AND kind NOT IN ('gpu_user_annotation', 'Trace') AND contains(lower(name), $text)
    UNION ALL
    SELECT 'operators', trace_id, process, thread, start_ns, op_id FROM ops WHERE contains(lower(name), $text)
    UNION ALL
    SELECT 'API calls', trace_id, process, thread, start_ns, api_index FROM api_calls WHERE contains(lower(name), $text)
)

SELECT p.number, f.trace_id, f.kind, f.process, f.thread, f.start_ns + p.shift_ns AS begins, f.id
FROM found AS f
INNER JOIN placed AS p USING (trace_id)
WHERE CASE WHEN $forward THEN f.start_ns + p.shift_ns > $at_ns ELSE f.start_ns + p.shift_ns < $at_ns END
ORDER BY CASE WHEN $forward THEN begins ELSE -begins END, p.number, f.kind, f.id
LIMIT 1;
