-- The calls of each thread, and how long it has been in calls by the end of each (`called_ns`, since the first one here): calls may be within others. `ended` is
-- one number for when those up to each have ended (`until_ns`) and which of them was the last, × 2⁴⁰. `bounds` names the traces, and when their first and last moment
-- of interest are (first_ns, last_ns).
CREATE OR REPLACE MACRO _called_time(bounds) AS TABLE
WITH _ended AS (
    SELECT
        a.trace_id,
        a.process,
        a.thread,
        a.start_ns,
        a.api_index,
        a.start_ns + a.duration_ns AS end_ns,
        max((a.start_ns + a.duration_ns)::HUGEINT * 1099511627776 + a.api_index) OVER (
            PARTITION BY a.trace_id, a.process, a.thread ORDER BY a.start_ns, a.api_index ROWS UNBOUNDED PRECEDING
        ) AS ended
    FROM api_calls AS a
    INNER JOIN query_table(bounds) AS b ON a.trace_id = b.trace_id AND a.start_ns < b.last_ns AND a.start_ns + a.duration_ns >= b.first_ns
)

SELECT
    * EXCLUDE (end_ns, reached_ns),
    (ended >> 40)::BIGINT AS until_ns,
    sum(greatest(0, end_ns - greatest(start_ns, coalesce(reached_ns, start_ns)))) OVER until_here AS called_ns
FROM (
    SELECT *, lag((ended >> 40)::BIGINT) OVER in_order AS reached_ns
    FROM _ended
    WINDOW in_order AS (PARTITION BY trace_id, process, thread ORDER BY start_ns, api_index)
)
WINDOW until_here AS (PARTITION BY trace_id, process, thread ORDER BY start_ns, api_index ROWS UNBOUNDED PRECEDING);
