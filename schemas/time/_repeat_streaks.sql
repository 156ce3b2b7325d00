-- Kernels in a row that have the name of the one `distance` before them, from `first_position` to `last_position`, for the twelve distances between
-- equal names that explain most launches. `is_break`: more than one in ten kernels differ before it (lengths choose kernels). `ordered` names a
-- relation like _kernel_order.
CREATE OR REPLACE MACRO _repeat_streaks(ordered) AS TABLE
WITH candidates AS (
    SELECT trace, place, distance
    FROM (
        SELECT trace, place, position - lag(position) OVER (PARTITION BY name ORDER BY position) AS distance
        FROM query_table(ordered)
        WHERE name IS NOT NULL
    )
    WHERE distance IS NOT NULL
    GROUP BY trace, place, distance
    QUALIFY row_number() OVER (PARTITION BY trace, place ORDER BY sum(distance) DESC, distance) <= 12
),

-- Of each streak the first and the last kernel: few, so that what follows sorts little.
edges AS (
    SELECT
        c.trace,
        c.place,
        c.distance,
        a.position,
        a.spent_ns,
        a.duration_ns,
        NOT coalesce(a.name_before = b.name_before, false) AS is_first,
        NOT coalesce(a.name_after = b.name_after, false) AS is_final
    FROM candidates AS c
    INNER JOIN query_table(ordered) AS a ON c.trace = a.trace AND c.place = a.place
    INNER JOIN query_table(ordered) AS b ON b.named_position = a.named_position - c.distance * 4294967296
    WHERE is_first OR is_final
)

SELECT
    trace,
    place,
    distance,
    position AS first_position,
    CASE WHEN is_final THEN position ELSE lead(position) OVER in_order END AS last_position,
    CASE WHEN is_final THEN 0 ELSE lead(spent_ns) OVER in_order - spent_ns END + coalesce(duration_ns, 0) AS total_ns,
    -- What stands before the first kernel of a streak is the last one of the streak before.
    coalesce(position - lag(position) OVER in_order > 1 + distance // 10, true) AS is_break
FROM edges
WINDOW in_order AS (PARTITION BY trace, place, distance ORDER BY position)
QUALIFY is_first;
