-- How long the host had waited for the GPU, but for what is in gaps itself: `waited_ns` in the waits that began at `start_ns`, most of it in the wait `number`,
-- and `credit_ns` in all by then. Waits less than 50 µs apart are one. What lies before `first_ns`, the start of the first launch, made that one late, too, and
-- does not count. `opened` names waits by lane and owner, `pieces` those that gaps have, as in `_wall_held`.
CREATE OR REPLACE MACRO _wait_credits(opened, pieces) AS TABLE
WITH _blocking AS (
    SELECT
        owner, number, start_ns, end_ns, first_ns,
        max(end_ns) OVER (PARTITION BY owner ORDER BY start_ns, number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached_ns
    FROM (SELECT DISTINCT owner, first_ns, number, start_ns, end_ns FROM query_table(opened) WHERE is_blocking)
),

_islands AS (
    SELECT
        *,
        greatest(0, end_ns - greatest(start_ns, first_ns, coalesce(reached_ns, start_ns))) AS waited_ns,
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

SELECT *, sum(waited_ns) OVER (PARTITION BY owner ORDER BY start_ns)::BIGINT AS credit_ns
FROM (
    SELECT
        i.owner,
        min(i.start_ns) AS start_ns,
        arg_max(i.number, (i.end_ns - greatest(i.start_ns, i.first_ns), i.number)) AS number,
        greatest(0, sum(i.waited_ns) - coalesce(sum(p.in_gaps_ns), 0))::BIGINT AS waited_ns
    FROM _islands AS i
    LEFT JOIN _in_gaps AS p ON i.owner = p.owner AND i.number = p.number
    GROUP BY i.owner, i.island
);
