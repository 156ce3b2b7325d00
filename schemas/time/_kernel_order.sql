-- The kernels of each device in the order of time, with the kernels before and after each. `place` is the device, -1 where there is none. The number
-- `name` is the number of one kernel name on one device, and in `named_position` a position further is 4294967296 (2^32): so a kernel finds the one of its
-- name some positions before it by a single integer.
CREATE OR REPLACE MACRO _kernel_order(source) AS TABLE
WITH names AS (
    SELECT trace, place, name_id, row_number() OVER () AS name
    FROM (
        SELECT DISTINCT trace, coalesce(device, -1) AS place, name_id
        FROM query_table(source)
        WHERE kind = 'kernel' AND name_id IS NOT NULL
    )
)

SELECT
    a.trace,
    coalesce(a.device, -1) AS place,
    n.name,
    lag(n.name) OVER in_time AS name_before,
    lead(n.name) OVER in_time AS name_after,
    a.launch_index,
    a.duration_ns,
    coalesce(sum(a.duration_ns) OVER (in_time ROWS UNBOUNDED PRECEDING), 0) AS spent_ns,
    a.start_ns - lag(a.end_ns) OVER in_time AS pause_ns,
    row_number() OVER in_time AS position,
    position * 4294967296 + n.name AS named_position
FROM query_table(source) AS a
LEFT JOIN names AS n ON a.trace = n.trace AND coalesce(a.device, -1) = n.place AND a.name_id = n.name_id
WHERE a.kind = 'kernel'
WINDOW in_time AS (PARTITION BY a.trace, coalesce(a.device, -1) ORDER BY a.start_ns, a.launch_index);
