-- What a range of the axis holds, by kind and name, most time first: launches, operators (with those within them) and calls of the host.
WITH placed AS (
    SELECT unnest($traces::VARCHAR[]) AS trace_id, unnest($shifts::BIGINT[]) AS shift_ns
),

found AS (
    SELECT 'GPU' AS kind, l.trace_id, coalesce(n.short_name, s.copy_kind, l.kind) AS name, l.start_ns, l.end_ns
    FROM launches AS l
    LEFT JOIN signatures AS s ON l.signature_id = s.signature_id
    LEFT JOIN kernel_names AS n ON s.name_id = n.name_id
    WHERE l.timing = 'timeline'
    UNION ALL
    SELECT 'operator', trace_id, name, start_ns, start_ns + duration_ns FROM ops
    UNION ALL
    SELECT 'API call', trace_id, name, start_ns, start_ns + duration_ns FROM api_calls
)

SELECT
    f.kind,
    f.name,
    count(*) AS n,
    sum(least(f.end_ns + p.shift_ns, $last_ns) - greatest(f.start_ns + p.shift_ns, $first_ns))::BIGINT AS total_ns
FROM found AS f
INNER JOIN placed AS p USING (trace_id)
WHERE f.start_ns + p.shift_ns < $last_ns AND f.end_ns + p.shift_ns > $first_ns
GROUP BY f.kind, f.name
QUALIFY row_number() OVER (PARTITION BY f.kind ORDER BY total_ns DESC, f.name) <= $most
ORDER BY array_position(['GPU', 'operator', 'API call'], f.kind), total_ns DESC, f.name;
