-- Iterations of traces with operators and no launches, as ranges: those of programs on a CPU. The named ones, else the profiler's steps.
SELECT
    t.trace_id,
    t.name AS trace,
    row_number() OVER (PARTITION BY t.trace_id ORDER BY r.start_ns) - 1 AS iteration,
    r.name AS label,
    r.start_ns AS from_ns,
    r.start_ns + r.duration_ns AS until_ns
FROM traces AS t
INNER JOIN ranges AS r USING (trace_id)
WHERE
    (r.name = $label OR ($label IS NULL AND r.name LIKE 'ProfilerStep#%'))
    AND r.device IS NULL
    AND ($names::VARCHAR[] IS NULL OR list_contains($names::VARCHAR[], t.name))
    AND t.trace_id NOT IN (SELECT l.trace_id FROM launches AS l)
ORDER BY t.name, r.start_ns;
