-- What a timeline reads of the view kernels, with fewer joins: for where nothing has to be filtered.
SELECT
    l.trace_id,
    l.process,
    l.device,
    l.stream,
    l.queue,
    n.category,
    l.timing,
    l.start_ns,
    l.end_ns
FROM launches AS l
LEFT JOIN (
    SELECT s.signature_id, k.category FROM signatures AS s LEFT JOIN kernel_names AS k USING (name_id)
) AS n USING (signature_id);
