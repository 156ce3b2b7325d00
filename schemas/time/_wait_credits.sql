-- How long the host waited for the GPU each time, but for what is in gaps itself: `credit_ns`, from `start_ns` on, most of it in the wait `number`. Waits
-- less than 50 µs apart are one. `opened` names waits by lane, `pieces` those that gaps have, as in `_wall_held`.
CREATE OR REPLACE MACRO _wait_credits(opened, pieces) AS TABLE
WITH _blocking AS (
    SELECT
        lane, number, start_ns, end_ns,
        max(end_ns) OVER (PARTITION BY lane ORDER BY start_ns, number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached_ns
    FROM query_table(opened)
    WHERE is_blocking
),

_islands AS (
    SELECT
        *,
        greatest(0, end_ns - greatest(start_ns, coalesce(reached_ns, start_ns))) AS waited_ns,
        sum(CASE WHEN start_ns > reached_ns + 50000 THEN 1 ELSE 0 END) OVER (PARTITION BY lane ORDER BY start_ns, number ROWS UNBOUNDED PRECEDING)
            AS island
    FROM _blocking
)

SELECT
    i.lane,
    i.island,
    min(i.start_ns) AS start_ns,
    arg_max(i.number, (i.end_ns - i.start_ns, i.number)) AS number,
    greatest(0, sum(i.waited_ns) - coalesce(sum(p.in_gaps_ns), 0))::BIGINT AS credit_ns
FROM _islands AS i
LEFT JOIN (
    SELECT lane, number, sum(end_ns - start_ns) AS in_gaps_ns FROM query_table(pieces) WHERE number IS NOT NULL GROUP BY ALL
) AS p ON i.lane = p.lane AND i.number = p.number
GROUP BY i.lane, i.island;
