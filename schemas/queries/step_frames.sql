-- Python functions and modules that ran in a window of time, those around others first.
SELECT r.name, r.start_ns, r.start_ns + coalesce(r.duration_ns, 0) AS end_ns
FROM ranges AS r
WHERE
    r.trace_id = $trace_id
    AND r.start_ns < $until_ns
    AND r.start_ns + coalesce(r.duration_ns, 0) > $from_ns
    AND (r.name LIKE '%.py(%): %' OR r.name LIKE 'nn.Module: %')
ORDER BY r.start_ns, end_ns DESC, r.name;
