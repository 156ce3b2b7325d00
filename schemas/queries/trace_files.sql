-- The files of all traces, with what shows cheaply whether another file can be the same.
SELECT f.trace_id, t.name, f.path, f.compressed_bytes
FROM trace_files AS f
INNER JOIN traces AS t USING (trace_id)
ORDER BY t.name, f.file_index;
