-- When a trace begins and ends on host and GPU, from when its times are told (the first launch), how many events it has, and how many launches.
WITH _ids AS (
    SELECT trace_id FROM traces WHERE name = $trace
),

_found AS (
    SELECT min(start_ns) AS first_ns, max(end_ns) AS last_ns, count(*) AS n, count(*) AS launches
    FROM launches
    WHERE trace_id IN (FROM _ids) AND timing = 'timeline' AND end_ns >= start_ns
    UNION ALL
    SELECT min(start_ns), max(start_ns + duration_ns), count(*), 0
    FROM ranges
    WHERE trace_id IN (FROM _ids) AND device IS NULL AND kind NOT IN ('gpu_user_annotation', 'Trace') AND duration_ns >= 0
    UNION ALL
    SELECT min(start_ns), max(start_ns + duration_ns), count(*), 0 FROM ops WHERE trace_id IN (FROM _ids) AND duration_ns >= 0
    UNION ALL
    SELECT min(start_ns), max(start_ns + duration_ns), count(*), 0 FROM api_calls WHERE trace_id IN (FROM _ids) AND duration_ns >= 0
)

SELECT
    min(first_ns) AS first_ns,
    max(last_ns) + 1 AS last_ns,
    coalesce(min(first_ns) FILTER (WHERE launches > 0), min(first_ns)) AS zero_ns,
    sum(n)::BIGINT AS n,
    sum(launches)::BIGINT AS launches
FROM _found;
