-- Which waits for the GPU made the host late in the time after them: pieces of `after` (owner, place, launch_index, start_ns, end_ns, and the last wait: since_ns,
-- its `number`), each with the `number` of the wait it counts for and the start of the row it is of (`from_ns`). `credits` names rows of `_wait_credits`.
--
-- A wait counts as long as it lasted. The last one comes first, then the one before it of which some is left, and so on, for up to 32 of them: what one gap
-- has used up is gone for those after it. `level` is how much is left of all waits by then, `below` how much was left before a wait.
CREATE OR REPLACE MACRO _wait_debts(after, credits) AS TABLE
WITH _periods AS (
    SELECT c.*, coalesce(f.free_ns, 0) AS free_ns, sum(coalesce(f.free_ns, 0)) OVER so_far AS until_ns
    FROM query_table(credits) AS c
    LEFT JOIN (SELECT owner, since_ns, sum(end_ns - start_ns) AS free_ns FROM query_table(after) GROUP BY ALL) AS f
        ON c.owner = f.owner AND c.start_ns = f.since_ns
    WINDOW so_far AS (PARTITION BY c.owner ORDER BY c.start_ns)
),

_stocks AS (
    SELECT
        owner,
        start_ns AS since_ns,
        number,
        waited_ns,
        free_ns,
        credit_ns - (until_ns - free_ns) + greatest(0, coalesce(max(until_ns - credit_ns) OVER before, 0)) AS stock_ns,
        stock_ns - waited_ns AS below
    FROM _periods
    WINDOW before AS (PARTITION BY owner ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),

-- Of most waits nothing is left soon: only the time after the others is put in order.
_used AS MATERIALIZED (
    SELECT
        a.owner,
        a.place,
        a.launch_index,
        a.start_ns,
        a.since_ns,
        s.number,
        s.below,
        s.stock_ns - sum(a.end_ns - a.start_ns) OVER so_far + a.end_ns - a.start_ns AS from_level,
        greatest(0, from_level - a.end_ns + a.start_ns) AS to_level
    FROM query_table(after) AS a
    INNER JOIN _stocks AS s ON a.owner = s.owner AND a.since_ns = s.since_ns AND s.stock_ns > 0
    WINDOW so_far AS (PARTITION BY a.owner, a.since_ns ORDER BY a.start_ns ROWS UNBOUNDED PRECEDING)
    QUALIFY from_level > 0
),

_left AS MATERIALIZED (
    SELECT *, row_number() OVER (PARTITION BY owner ORDER BY since_ns) AS rank
    FROM _stocks
    WHERE waited_ns > free_ns
),

_deep AS MATERIALIZED (
    SELECT u.*, r.rank
    FROM (FROM _used WHERE to_level < below) AS u
    ASOF INNER JOIN _left AS r ON u.owner = r.owner AND u.since_ns > r.since_ns
),

_earlier AS (
    SELECT
        d.*,
        r.number AS earlier_number,
        r.below AS earlier_below,
        least(d.below, min(r.below) OVER (
            PARTITION BY d.owner, d.place, d.launch_index, d.start_ns ORDER BY r.rank DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        )) AS above
    FROM (SELECT *, unnest(generate_series(greatest(1, rank - 31), rank)) AS candidate FROM _deep) AS d
    INNER JOIN _left AS r ON d.owner = r.owner AND d.candidate = r.rank
),

_matched AS (
    SELECT place, launch_index, start_ns, number, from_level, from_level AS high, greatest(to_level, below) AS low FROM _used
    UNION ALL
    SELECT place, launch_index, start_ns, earlier_number, from_level, least(from_level, above), greatest(to_level, earlier_below) FROM _earlier
)

SELECT
    place,
    launch_index,
    start_ns AS from_ns,
    (start_ns + from_level - high)::BIGINT AS start_ns,
    (start_ns + from_level - low)::BIGINT AS end_ns,
    number
FROM _matched
WHERE high > low;
