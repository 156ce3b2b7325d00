-- What `idle_gaps` reads (of the roofs nothing) of the launches of traces in a stretch of the axis, and of the last ones before and the first ones after it.
WITH placed AS (
    SELECT unnest($traces::VARCHAR[]) AS trace_id, unnest($shifts::BIGINT[]) AS shift_ns
),

reach AS (
    SELECT
        p.trace_id,
        coalesce(max(l.start_ns) FILTER (l.end_ns + p.shift_ns <= $first_ns), any_value($first_ns - p.shift_ns)) AS from_ns,
        coalesce(min(l.start_ns) FILTER (l.start_ns + p.shift_ns >= $last_ns), any_value($last_ns - p.shift_ns)) AS to_ns
    FROM placed AS p
    INNER JOIN launches AS l USING (trace_id)
    WHERE l.timing = 'timeline'
    GROUP BY p.trace_id
)

SELECT
    t.name AS trace,
    l.trace_id,
    l.signature_id,
    l.inferred_id,
    l.module,
    l.python_line,
    l.launch_status,
    l.graph_id,
    NULL::DOUBLE AS pct_peak_flops,
    NULL::DOUBLE AS pct_peak_bandwidth,
    l.device,
    l.process,
    l.api_index,
    l.kind,
    s.copy_kind,
    s.category,
    n.short_name,
    s.op,
    NULL::VARCHAR AS phase,
    l.launch_start_ns,
    l.launch_duration_ns,
    l.start_ns,
    l.end_ns,
    l.launch_index,
    l.timing
FROM launches AS l
INNER JOIN reach AS r USING (trace_id)
INNER JOIN traces AS t USING (trace_id)
LEFT JOIN signatures AS s ON l.signature_id = s.signature_id
LEFT JOIN kernel_names AS n ON s.name_id = n.name_id
WHERE l.timing = 'timeline' AND l.start_ns >= r.from_ns AND l.start_ns <= r.to_ns;
