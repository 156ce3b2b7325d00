-- The threads whose calls end gaps: `host_process` and `thread` of the launch call, and `other_thread` of the one before. `gaps` names gaps with their trace and
-- the calls of both launches, `used` rows of `_wall_launches`, `places` of `_wall_places`.
CREATE OR REPLACE MACRO _wall_threads(used, places, gaps) AS TABLE
-- Mostly one thread makes all calls of a trace, which need not be looked for then.
WITH _alone AS (
    SELECT trace_id, any_value(process) AS process, any_value(thread) AS thread
    FROM (SELECT DISTINCT trace_id, process, thread FROM api_calls WHERE trace_id IN (SELECT trace_id FROM query_table(places)))
    GROUP BY trace_id
    HAVING count(*) = 1 AND count(process) = 1 AND count(thread) = 1
),

_callers AS (
    SELECT *
    FROM api_calls
    WHERE trace_id IN (SELECT trace_id FROM query_table(places)) AND trace_id NOT IN (SELECT trace_id FROM _alone)
)

SELECT
    g.*,
    coalesce(o.process, c.process, u.process) AS host_process,
    coalesce(o.thread, c.thread) AS thread,
    coalesce(o.thread, b.thread, c.thread) AS other_thread
FROM query_table(gaps) AS g
LEFT JOIN _alone AS o USING (trace_id)
LEFT JOIN _callers AS c ON g.trace_id = c.trace_id AND g.api_index = c.api_index
LEFT JOIN (SELECT place, launch_index, process FROM query_table(used) WHERE api_index IS NULL) AS u ON g.place = u.place AND g.launch_index = u.launch_index
LEFT JOIN _callers AS b ON g.trace_id = b.trace_id AND g.previous_api = b.api_index AND b.process IS NOT DISTINCT FROM c.process;
