-- The trace of another run whose work the trace $trace_id seems to be, printed or exported once more: as many kernels of the same total
-- time to the nanosecond, and the same names. Many kernels need no equal names, for a report may cut them. Copies tell only where a
-- trace holds no kernels. PyTorch's ranks and stages are left out: each is its own work.
WITH own AS (
    SELECT trace_id, run FROM traces WHERE trace_id = $trace_id AND source <> 'pytorch'
),

candidates AS (
    SELECT trace_id, name, run, ingested_at
    FROM traces
    WHERE
        source <> 'pytorch'
        AND trace_id <> $trace_id
        AND EXISTS (FROM own WHERE own.run IS NULL OR traces.run IS DISTINCT FROM own.run)
),

sums AS (
    SELECT
        r.trace_id,
        s.kind = 'kernel' AS of_kernels,
        sum(r.n)::BIGINT AS n,
        sum(r.total_ns)::BIGINT AS total_ns,
        list_sort(list(DISTINCT k.match_name)) AS names
    FROM rollups AS r
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS k USING (name_id)
    WHERE
        r.timing = 'timeline'
        AND r.origin <> 'report_phase'
        AND r.trace_id IN (SELECT trace_id FROM candidates UNION ALL SELECT trace_id FROM own)
    GROUP BY r.trace_id, r.origin, s.kind = 'kernel'
)

SELECT c.name, c.run
FROM candidates AS c
INNER JOIN sums AS theirs USING (trace_id)
INNER JOIN sums AS ours ON
    ours.trace_id = $trace_id
    AND ours.of_kernels = theirs.of_kernels
    AND ours.n = theirs.n
    AND ours.total_ns = theirs.total_ns
WHERE
    ours.total_ns > 0
    AND (ours.names = theirs.names OR (ours.of_kernels AND ours.n >= 100))
    AND (ours.of_kernels OR (ours.n > 1 AND NOT EXISTS (FROM sums WHERE sums.trace_id = $trace_id AND sums.of_kernels)))
ORDER BY c.ingested_at, c.name
LIMIT 1;
