-- Which wait of `_host_waits` is open after each point of a lane, of several the one with the lowest precedence: `wait` is its end_ns × 2⁴⁰ + number, NULL
-- where none is. `next_ns` is the next point. `points` names points with lane, ts_ns and, where something begins there, its end and number as `wait` with its
-- `precedence`, or as `gap`; the latter comes back as the gap that was begun last.
CREATE OR REPLACE MACRO _wait_states(points) AS TABLE
SELECT
    * EXCLUDE (gap, wait, precedence, begun),
    list_filter(begun, lambda one : one >> 40 > ts_ns)[1] AS wait
FROM (
    SELECT
        *,
        lead(ts_ns) OVER in_time AS next_ns,
        max(gap) OVER so_far AS begun_gap,
        [
            max(CASE WHEN precedence = 1 THEN wait END) OVER so_far,
            max(CASE WHEN precedence = 2 THEN wait END) OVER so_far,
            max(CASE WHEN precedence = 3 THEN wait END) OVER so_far,
            max(CASE WHEN precedence = 4 THEN wait END) OVER so_far,
            max(CASE WHEN precedence = 5 THEN wait END) OVER so_far,
            max(CASE WHEN precedence = 6 THEN wait END) OVER so_far,
            max(CASE WHEN precedence = 7 THEN wait END) OVER so_far,
            max(CASE WHEN precedence = 8 THEN wait END) OVER so_far
        ] AS begun
    FROM query_table(points)
    WINDOW
        in_time AS (PARTITION BY lane ORDER BY ts_ns),
        so_far AS (PARTITION BY lane ORDER BY ts_ns RANGE UNBOUNDED PRECEDING)
);
