-- What ingest did with the events of each named trace (all where $names is NULL).
SELECT t.name AS trace, r.outcome, r.reason, r.n, r.example, f.path
FROM ingest_reports AS r
INNER JOIN traces AS t USING (trace_id)
LEFT JOIN trace_files AS f USING (trace_id, file_index)
WHERE $names IS NULL OR list_contains($names, t.name)
ORDER BY t.name, r.file_index, r.outcome, r.reason;
