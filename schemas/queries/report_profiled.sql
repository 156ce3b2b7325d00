-- Traces with counters: those named, and those of the same runs.
SELECT DISTINCT t.name AS trace
FROM traces AS t
WHERE
    t.kind = 'profiled'
    AND (list_contains($traces::VARCHAR[], t.name) OR t.run IN (SELECT run FROM traces WHERE list_contains($traces::VARCHAR[], name)))
ORDER BY t.name;
