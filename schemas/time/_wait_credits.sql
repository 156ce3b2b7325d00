-- How long the host had waited for the GPU in all, but for what is in gaps itself: `credit_ns`, from `start_ns` of each wait on, most of it in the wait `number`.
-- Waits less than 50 µs apart are one. `opened` names waits by lane and owner, `pieces` those that gaps have, as in `_wall_held`.
CREATE OR REPLACE MACRO _wait_credits(opened, pieces) AS TABLE
WITH _blocking AS (
    SELECT
        owner, number, start_ns, end_ns,
        max(end_ns) OVER (PARTITION BY owner ORDER BY start_ns, number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached_ns
    FROM (SELECT DISTINCT owner, number, start_ns, end_ns FROM query_table(opened) WHERE is_blocking)
),

_islands AS (
    SELECT
        *,
        greatest(0, end_ns - greatest(start_ns, coalesce(reached_ns, start_ns))) AS waited_ns,
        sum(CASE WHEN start_ns > reached_ns + 50000 THEN 1 ELSE 0 END) OVER (PARTITION BY owner ORDER BY start_ns, number ROWS UNBOUNDED PRECEDING)
            AS island
    FROM _blocking
),

_in_gaps AS (
    SELECT o.owner, p.number, sum(p.end_ns - p.start_ns) AS in_gaps_ns
    FROM query_table(pieces) AS p
    INNER JOIN (SELECT DISTINCT lane, owner FROM query_table(opened)) AS o USING (lane)
    WHERE p.number IS NOT NULL
    GROUP BY ALL
)

SELECT
    i.owner,
    min(i.start_ns) AS start_ns,
    arg_max(i.number, (i.end_ns - i.start_ns, i.number)) AS number,
    sum(greatest(0, sum(i.waited_ns) - coalesce(sum(p.in_gaps_ns), 0))) OVER (PARTITION BY i.owner ORDER BY i.island)::BIGINT AS credit_ns
FROM _islands AS i
LEFT JOIN _in_gaps AS p ON i.owner = p.owner AND i.number = p.number
GROUP BY i.owner, i.island;
