-- Other recorded calls that launched a kernel like that of $signature_id (name, grid and block) as kernel number $ordinal of theirs: with an example
-- and the mean duration, those nearest to $duration_ns first.
WITH wanted AS (
    SELECT name_id, kind, grid_x, grid_y, grid_z, block_x, block_y, block_z
    FROM signatures
    WHERE signature_id = $signature_id
)

SELECT
    s.call_id,
    min({'trace_id': l.trace_id, 'op_id': l.op_id, 'launch_index': l.launch_index, 'trace': t.name}) AS example,
    avg(l.duration_ns) AS duration_ns,
    count(*) AS n
FROM wanted AS w
INNER JOIN signatures AS s
    ON
        w.name_id = s.name_id AND w.kind = s.kind
        AND w.grid_x = s.grid_x AND w.grid_y = s.grid_y AND w.grid_z = s.grid_z
        AND w.block_x = s.block_x AND w.block_y = s.block_y AND w.block_z = s.block_z
INNER JOIN launches AS l ON s.signature_id = l.signature_id
INNER JOIN traces AS t ON l.trace_id = t.trace_id
WHERE s.call_id IS NOT NULL AND s.call_id <> $call_id AND l.op_id IS NOT NULL AND l.call_ordinal = $ordinal
GROUP BY s.call_id
ORDER BY abs(avg(l.duration_ns) - $duration_ns), s.call_id
LIMIT 4;
