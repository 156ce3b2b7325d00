-- Whether the selection has launches of a running program; else those under a kernel profiler are replayed. `repeated`: runs (or traces that
-- belong to none) of which the selection holds only launches that repeat the work of another file, which it does not hold.
WITH held AS (
    SELECT
        coalesce(run, trace_id) AS held_by,
        bool_or(timing = 'timeline') AS is_timed,
        bool_or(counted) FILTER (timing = 'timeline') AS is_timed_counted,
        bool_or(counted) AS is_counted
    FROM selection
    GROUP BY held_by
),

asked AS (SELECT *, bool_or(is_timed) OVER () AS any_timed FROM held)

SELECT
    CASE WHEN bool_or(is_timed) THEN 'timeline' ELSE 'profiled' END AS timing,
    coalesce(list(held_by ORDER BY held_by) FILTER (NOT coalesce(CASE WHEN any_timed THEN is_timed_counted ELSE is_counted END, false)), []) AS repeated
FROM asked;
