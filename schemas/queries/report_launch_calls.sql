SELECT count(*) AS calls FROM api_calls WHERE trace_id = (SELECT trace_id FROM traces WHERE name = $trace) AND name ILIKE '%launchkernel%';
