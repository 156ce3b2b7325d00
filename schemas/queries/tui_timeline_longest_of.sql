-- The longest launch of a signature (in the trace $trace, where one is given), of those whose call is known where there are any; n: of how many.
SELECT trace_id, launch_index, count(*) OVER (PARTITION BY launch_start_ns IS NULL) AS n
FROM laned
WHERE signature_id = $signature_id AND ($trace::VARCHAR IS NULL OR trace = $trace)
ORDER BY launch_start_ns IS NULL, end_ns - start_ns DESC, trace, start_ns, launch_index
LIMIT 1;
