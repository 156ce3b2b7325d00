SELECT
    count(*) OVER () AS n,
    ops.name,
    json_extract_string(op_calls.extra, '$.kernel_hash') AS kernel_hash
FROM ops
INNER JOIN traces USING (trace_id)
INNER JOIN op_calls USING (call_id)
WHERE traces.name = $trace AND op_calls.extra LIKE '%kernel_hash%';
