-- Nsight Compute counts launches per launch configuration, whatever their names: how many it has to take of each to meet all of $launches,
-- when it sees those of $name_ids in the recorded order; and how many launches that makes.
WITH placed AS (
    SELECT
        coalesce(launch_key, name_id) AS launch,
        row_number() OVER (
            PARTITION BY trace_id, grid_x, grid_y, grid_z, block_x, block_y, block_z ORDER BY start_ns, launch_index
        ) AS place
    FROM selection
    WHERE timing = 'timeline' AND kind = 'kernel' AND list_contains($name_ids, name_id)
),

needed AS (
    SELECT coalesce(max(place), 1) AS per_configuration
    FROM (SELECT min(place) AS place FROM placed WHERE list_contains($launches, launch) GROUP BY launch) AS firsts
)

SELECT any_value(per_configuration) AS per_configuration, count(place) AS profiled
FROM needed
LEFT JOIN placed ON placed.place <= needed.per_configuration;
