-- Of the traces $names, those whose work counts in another trace of their run, and that trace: for a trace of launches another with
-- launches, for sums one with launches or with rows that count.
WITH kept AS (
    SELECT
        t.trace_id,
        t.name,
        t.run,
        bool_or(coalesce(r.counted, t.counted, true) AND r.origin <> 'report_phase') AS counts,
        t.launches
    FROM traces AS t
    INNER JOIN rollups AS r USING (trace_id)
    WHERE r.timing = 'timeline' AND t.run IS NOT NULL
    GROUP BY ALL
)

SELECT a.name AS trace, a.run, arg_min(b.name, (-coalesce(b.launches, 0), b.name)) AS counted
FROM kept AS a
INNER JOIN kept AS b ON a.run = b.run AND b.counts
WHERE NOT a.counts AND list_contains($names, a.name)
GROUP BY a.name, a.run
ORDER BY a.name;
