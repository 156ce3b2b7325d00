-- Launches of a device in a row that belong to the same phase, and to the same module.
WITH _launched AS (
    SELECT
        'GPU ' || coalesce(device::VARCHAR, '?') AS place,
        unnest([{lane: 'phase', name: phase}, {lane: 'module', name: module}], recursive := true),
        start_ns,
        end_ns,
        launch_index
    FROM kernels
    WHERE trace = $trace AND timing = 'timeline' AND start_ns IS NOT NULL AND end_ns >= start_ns
),

_numbered AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY place, lane ORDER BY start_ns, launch_index)
        - row_number() OVER (PARTITION BY place, lane, name ORDER BY start_ns, launch_index) AS island
    FROM _launched
)

SELECT place, lane, name, min(start_ns) AS start_ns, max(end_ns) - min(start_ns) AS duration_ns
FROM _numbered
WHERE name IS NOT NULL
GROUP BY place, lane, name, island
ORDER BY place, lane, start_ns, name;
