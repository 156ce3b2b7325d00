-- What ingest did with the events of each named trace (all where $names is NULL).
SELECT t.name AS trace, r.outcome, r.reason, r.n, r.example, f.path
FROM ingest_reports AS r
INNER JOIN traces AS t USING (trace_id)
LEFT JOIN trace_files AS f ON r.trace_id = f.trace_id AND r.file_index = f.file_index
WHERE $names IS NULL OR list_contains($names, t.name)
ORDER BY t.name, r.file_index, r.outcome, r.reason;
