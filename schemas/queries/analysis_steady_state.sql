-- How many steady-state iterations the selected launches of some traces have, and what one takes on a device.
SELECT count(*) AS n, avg(total_ns) AS mean_ns
FROM (
    SELECT trace, device, iteration, sum(duration_ns) AS total_ns
    FROM selection
    WHERE steady_state AND timing = 'timeline' AND list_contains($names::VARCHAR[], trace)
    GROUP BY trace, device, iteration
)
HAVING count(*) > 0;
