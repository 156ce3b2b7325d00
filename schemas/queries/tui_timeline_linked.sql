-- The launches that an event of the host led to: of the call $id, or of operator $id and those below it; the first first.
WITH RECURSIVE below AS (
    SELECT $id::BIGINT AS id WHERE $kind = 'operators'
    UNION ALL
    SELECT o.op_id
    FROM ops AS o
    INNER JOIN below AS b ON o.parent_id = b.id
    WHERE o.trace_id = $trace_id
)

SELECT launch_index, start_ns, duration_ns, count(*) OVER () AS n, sum(duration_ns) OVER ()::BIGINT AS total_ns
FROM launches
WHERE
    trace_id = $trace_id
    AND timing = 'timeline'
    AND (($kind = 'API calls' AND api_index = $id) OR ($kind = 'operators' AND op_id IN (FROM below)))
ORDER BY start_ns, launch_index
LIMIT 1;
