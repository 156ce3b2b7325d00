-- What the host did for at least half of each of `gaps` (names a relation: gap, trace_id, process, thread, start_ns, end_ns, since_ns): `doing`, its name,
-- whether it is a Python frame of the program, and the time of the gap that it covers. The innermost frame comes first; else the innermost operator or
-- annotation that began after `since_ns`, or of whose own time the gap is at least half. Annotations that differ by a number are one (`IO …`).
CREATE OR REPLACE MACRO _host_doing(gaps) AS TABLE
WITH _asked AS (FROM query_table(gaps)),

_around AS (
    SELECT trace_id, process, thread, name, start_ns, start_ns + duration_ns AS end_ns, depth, kind = 'python_function' AS is_frame
    FROM ranges
    WHERE
        trace_id IN (SELECT trace_id FROM _asked)
        AND device IS NULL
        AND duration_ns >= 100000
        AND kind NOT IN ('overhead', 'Trace')
        AND name NOT LIKE 'ProfilerStep#%'
    UNION ALL
    SELECT trace_id, process, thread, name, start_ns, start_ns + duration_ns, depth, false
    FROM ops
    WHERE trace_id IN (SELECT trace_id FROM _asked) AND duration_ns >= 100000 AND name NOT LIKE 'ProfilerStep#%'
)

SELECT
    g.gap,
    arg_max(
        {
            'name': CASE WHEN r.is_frame THEN r.name ELSE regexp_replace(r.name, '[0-9]+', '…', 'g') END,
            'is_frame': r.is_frame,
            'covered_ns': least(r.end_ns, g.end_ns) - greatest(r.start_ns, g.start_ns)
        },
        (r.is_frame, r.start_ns, -r.end_ns, r.depth, r.name)
    ) AS doing
FROM _asked AS g
INNER JOIN _around AS r
    ON
        g.trace_id = r.trace_id
        AND g.process = r.process
        AND g.thread = r.thread
        AND r.start_ns < g.end_ns
        AND r.end_ns > g.start_ns
        AND 2 * (least(r.end_ns, g.end_ns) - greatest(r.start_ns, g.start_ns)) >= g.end_ns - g.start_ns
        AND (
            r.is_frame
            OR r.start_ns >= g.since_ns
            OR 2 * (least(r.end_ns, g.end_ns) - greatest(r.start_ns, g.start_ns)) >= r.end_ns - r.start_ns
        )
WHERE NOT (r.is_frame AND _is_library_frame(r.name))
GROUP BY g.gap;
