-- Traces with counters: those named, and those of the same runs. Of several prints of one report, the one that counts.
SELECT name AS trace
FROM traces
WHERE
    kind = 'profiled'
    AND (list_contains($traces::VARCHAR[], name) OR run IN (SELECT run FROM traces WHERE list_contains($traces::VARCHAR[], name)))
QUALIFY coalesce(counted, true) OR NOT bool_or(coalesce(counted, true)) OVER (PARTITION BY coalesce(run, trace_id))
ORDER BY name;
