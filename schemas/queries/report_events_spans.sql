-- Launches of a device in a row that belong to the same phase, and to the same module, in a stretch of a trace: where several begin in the same $step_ns, to
-- that of most of their time.
WITH _launched AS (
    SELECT
        'GPU ' || coalesce(l.device::VARCHAR, '?') AS place,
        unnest([{lane: 'phase', name: coalesce(l.phase, t.default_phase)}, {lane: 'module', name: l.module}], recursive := true),
        (l.start_ns - $first_ns) // greatest($step_ns, 1) AS bin,
        l.start_ns,
        l.end_ns
    FROM launches AS l
    INNER JOIN traces AS t USING (trace_id)
    WHERE
        t.name = $trace
        AND l.timing = 'timeline'
        AND coalesce(t.primary_timing, 'timeline') = 'timeline'
        AND l.end_ns >= l.start_ns
        AND l.start_ns < $last_ns
        AND l.end_ns >= $first_ns
),

_binned AS (
    SELECT place, lane, name, bin, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM _launched
    GROUP BY place, lane, name, bin
    QUALIFY row_number() OVER (PARTITION BY place, lane, bin ORDER BY sum(end_ns - start_ns) DESC, name) = 1
),

_numbered AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY place, lane ORDER BY bin)
        - row_number() OVER (PARTITION BY place, lane, name ORDER BY bin) AS island
    FROM _binned
)

SELECT place, lane, name, min(start_ns) AS start_ns, max(end_ns) - min(start_ns) AS duration_ns
FROM _numbered
WHERE name IS NOT NULL
GROUP BY place, lane, name, island
ORDER BY place, lane, start_ns, name;
