-- From where the signature $signature_id is launched: modules and lines of the program, where they are known, most time first. With $traces only of these traces.
SELECT
    trace,
    python_line AS line,
    module,
    count(*) AS n,
    try_cast(sum(duration_ns) AS BIGINT) AS total_ns
FROM kernels
WHERE
    signature_id = $signature_id
    AND coalesce(python_line, module) IS NOT NULL
    AND coalesce(list_contains($traces::VARCHAR[], trace), true)
GROUP BY trace, python_line, module
ORDER BY total_ns DESC NULLS LAST, trace, line, module
LIMIT 20;
