-- Which step of the profiler (`ProfilerStep#7`) each launch is in: the one in which the host made it, or where it stands `outside`: before or after
-- all steps, or between two. Launches of traces with steps only. `place` is the device, -1 where there is none.
--
-- `source` names launches of timelines that have a start, with trace, trace_id, device, kind, launch_index, launch_start_ns, start_ns, end_ns and
-- duration_ns.
CREATE OR REPLACE MACRO _launch_steps(source) AS TABLE
-- Of steps that begin at one moment, in several processes, the longest.
WITH steps AS (
    SELECT trace_id, arg_max(name, (coalesce(end_ns, start_ns), name)) AS name, start_ns, max(end_ns) AS end_ns
    FROM (
        SELECT trace_id, name, start_ns, start_ns + duration_ns AS end_ns
        FROM ranges
        WHERE name LIKE 'ProfilerStep#%' AND device IS NULL AND trace_id IN (SELECT trace_id FROM query_table(source))
        UNION ALL
        SELECT trace_id, name, start_ns, start_ns + duration_ns AS end_ns
        FROM ops
        WHERE name LIKE 'ProfilerStep#%' AND trace_id IN (SELECT trace_id FROM query_table(source))
    )
    GROUP BY trace_id, start_ns
),

extents AS (
    SELECT trace_id, min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM steps GROUP BY trace_id
)

SELECT
    a.trace,
    a.device,
    coalesce(a.device, -1) AS place,
    a.is_kernel,
    a.launch_index,
    a.start_ns,
    a.end_ns,
    a.duration_ns,
    CASE WHEN a.host_ns < s.end_ns THEN s.name END AS step,
    CASE WHEN a.host_ns < a.first_ns THEN 'before' WHEN a.host_ns >= a.last_ns THEN 'after' ELSE 'between' END AS outside
FROM (
    SELECT *, kind = 'kernel' AS is_kernel, coalesce(launch_start_ns, start_ns) AS host_ns
    FROM query_table(source)
    INNER JOIN extents USING (trace_id)
) AS a
ASOF LEFT JOIN steps AS s ON a.trace_id = s.trace_id AND a.host_ns >= s.start_ns;
