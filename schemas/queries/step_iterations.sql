-- The iterations of the selected launches, with their traces.
SELECT
    t.trace_id,
    i.trace,
    i.device,
    i.iteration,
    i.label,
    i.steady_state,
    i.launches,
    i.first_launch_index,
    i.last_launch_index
FROM iterations('selection') AS i
INNER JOIN traces AS t ON i.trace = t.name
WHERE i.iteration IS NOT NULL
ORDER BY i.trace, i.device, i.start_ns;
