-- One launch; or, where $launch_index is NULL, the first selected launch of a signature.
SELECT trace_id, launch_index
FROM laned
WHERE
    ($launch_index::BIGINT IS NULL OR (launch_index = $launch_index AND trace_id = $trace_id))
    AND ($launch_index::BIGINT IS NOT NULL OR signature_id = $signature_id)
ORDER BY trace, start_ns, launch_index
LIMIT 1;
