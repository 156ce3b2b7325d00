-- Gaps that end with a launch whose thread let the stream wait for an event before, and launched nothing in between. `used` names rows of `_wall_launches`,
-- `places` of `_wall_places`, `gaps` gaps with the process and thread of the call that ends them.
CREATE OR REPLACE MACRO _wall_ordered(used, places, gaps) AS TABLE
WITH _event_waits AS (
    SELECT trace_id, process, thread, start_ns
    FROM api_calls
    WHERE trace_id IN (SELECT trace_id FROM query_table(gaps)) AND name ILIKE '%StreamWaitEvent%'
),

_calls AS (
    SELECT DISTINCT a.trace_id, a.api_index, a.process, a.thread, a.start_ns
    FROM query_table(used) AS u
    INNER JOIN query_table(places) AS p USING (place)
    INNER JOIN api_calls AS a ON p.trace_id = a.trace_id AND u.api_index = a.api_index
    WHERE p.trace_id IN (SELECT trace_id FROM _event_waits)
),

_launch_calls AS (
    SELECT *, lag(start_ns) OVER (PARTITION BY trace_id, process, thread ORDER BY start_ns) AS before_ns FROM _calls
),

_ordered AS (
    SELECT DISTINCT c.trace_id, c.api_index
    FROM _launch_calls AS c
    ASOF INNER JOIN _event_waits AS w
        ON c.trace_id = w.trace_id AND c.process IS NOT DISTINCT FROM w.process AND c.thread IS NOT DISTINCT FROM w.thread AND c.start_ns >= w.start_ns
    WHERE c.before_ns IS NULL OR w.start_ns >= c.before_ns
)

SELECT DISTINCT g.place, g.launch_index, true AS is_ordered
FROM query_table(gaps) AS g
INNER JOIN _ordered AS o ON g.trace_id = o.trace_id AND g.api_index = o.api_index;
