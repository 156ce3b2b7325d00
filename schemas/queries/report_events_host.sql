-- What threads of the host did in a stretch of a trace (annotations, Python frames, operators, API calls): events of $step_ns and more, and the shorter ones
-- summed by thread and by the bin of $step_ns in which they begin, as in `report_events_launches`.
WITH _ids AS (
    SELECT trace_id FROM traces WHERE name = $trace
),

_found AS NOT MATERIALIZED (
    SELECT
        CASE WHEN kind = 'python_function' THEN 'Python' ELSE 'annotations' END AS lane,
        process,
        thread,
        name,
        start_ns,
        duration_ns,
        range_id AS id
    FROM ranges
    WHERE trace_id IN (FROM _ids) AND device IS NULL AND kind NOT IN ('gpu_user_annotation', 'Trace')
    UNION ALL
    SELECT 'operators', process, thread, name, start_ns, duration_ns, op_id
    FROM ops WHERE trace_id IN (FROM _ids)
    UNION ALL
    SELECT 'API calls', process, thread, name, start_ns, duration_ns, api_index
    FROM api_calls WHERE trace_id IN (FROM _ids)
),

_cut AS NOT MATERIALIZED (
    FROM _found WHERE duration_ns >= 0 AND start_ns < $last_ns AND start_ns + duration_ns >= $first_ns
),

_summed AS (
    SELECT
        lane,
        (max(duration_ns::HUGEINT * 1099511627776 + id) % 1099511627776)::BIGINT AS id,
        min(start_ns) AS start_ns,
        max(start_ns + duration_ns) - min(start_ns) AS duration_ns,
        count(*) AS n,
        sum(duration_ns)::BIGINT AS busy_ns
    FROM _cut
    WHERE duration_ns < $step_ns
    GROUP BY lane, process, thread, (start_ns - $first_ns) // $step_ns
),

_items AS (
    SELECT *, 1 AS n, duration_ns AS busy_ns FROM _cut WHERE duration_ns >= $step_ns
    UNION ALL BY NAME
    SELECT c.* REPLACE (s.start_ns AS start_ns, s.duration_ns AS duration_ns), s.n, s.busy_ns
    FROM _summed AS s
    INNER JOIN _cut AS c USING (lane, id)
)

SELECT
    CASE WHEN try_cast(process AS BIGINT) < 0 THEN 'no process' ELSE 'process ' || coalesce(process, '?') END
    || ', thread ' || coalesce(thread, '?') AS place,
    lane,
    name,
    start_ns,
    duration_ns,
    id,
    n,
    busy_ns
FROM _items
-- Threads of no known process hold marks of the profiler rather than the program.
ORDER BY coalesce(try_cast(process AS BIGINT) < 0, process IS NULL), place, array_position(['annotations', 'operators', 'API calls', 'Python'], lane), start_ns, duration_ns DESC, name;
