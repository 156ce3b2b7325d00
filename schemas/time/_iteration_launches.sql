-- Which iteration of its program each launch belongs to. Where the profiler wrote steps, those are the iterations; on other devices the sequence of
-- kernel names shows.
CREATE OR REPLACE MACRO _iteration_launches(source) AS TABLE
WITH _timed AS (
    SELECT trace, trace_id, device, kind, name_id, launch_index, launch_start_ns, start_ns, end_ns, duration_ns
    FROM query_table(source)
    WHERE timing = 'timeline' AND start_ns IS NOT NULL
),

_stepped AS (FROM _launch_steps('_timed')),

_unmarked AS (
    FROM _timed
    WHERE (trace, coalesce(device, -1)) NOT IN (SELECT DISTINCT (trace, place) FROM _stepped WHERE step IS NOT NULL)
)

FROM _step_launches('_stepped')
UNION ALL
FROM _period_launches('_unmarked');
