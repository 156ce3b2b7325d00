SELECT count(DISTINCT ranges.name) AS n
FROM ranges
INNER JOIN traces USING (trace_id)
WHERE traces.name = $trace AND ranges.kind = $kind AND ranges.name <> $dropped;
