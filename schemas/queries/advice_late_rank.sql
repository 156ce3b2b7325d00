-- Waiting in collectives that nothing hides, for the rank that is waited for longest.
WITH waits AS (
    SELECT late_rank, sum(wall_ns) AS wall_ns, sum(collectives) AS n, any_value(span_ns) AS span_ns
    FROM found_places
    WHERE cause = 'waiting for a rank'
    GROUP BY late_rank
)

SELECT
    sum(wall_ns)::DOUBLE AS at_stake_ns,
    100 * sum(wall_ns) / any_value(span_ns) AS share_pct,
    sum(n)::BIGINT AS n,
    arg_max(late_rank, (wall_ns, late_rank)) AS late_rank,
    100 * max(wall_ns) / sum(wall_ns) AS rank_pct
FROM waits
HAVING share_pct >= 2;
