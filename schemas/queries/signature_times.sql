-- Launches of the signature $signature_id per trace and phase; where a trace has none of them but a tool's report has their sums, those.
-- With $traces only of these traces.
WITH recorded AS (
    SELECT
        trace_id,
        phase,
        count(*) AS n,
        try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
        avg(duration_ns) AS mean_ns,
        median(duration_ns) AS median_ns,
        min(duration_ns) AS min_ns,
        max(duration_ns) AS max_ns,
        max(registers) AS registers,
        max(shared_bytes) AS shared_bytes,
        max(occupancy) AS occupancy,
        max(theoretical_occupancy) AS theoretical_occupancy,
        CASE WHEN min(theoretical_limiter) = max(theoretical_limiter) THEN min(theoretical_limiter) END AS limiter
    FROM launches
    WHERE signature_id = $signature_id
    GROUP BY trace_id, phase
),

reported AS (
    SELECT
        trace_id,
        phase,
        sum(n)::BIGINT AS n,
        try_cast(sum(total_ns) AS BIGINT) AS total_ns,
        sum(total_ns) / sum(coalesce(timed, n)) AS mean_ns,
        CASE WHEN count(*) = 1 THEN max(median_ns) END AS median_ns,
        min(min_ns) AS min_ns,
        max(max_ns) AS max_ns
    FROM rollups
    WHERE
        signature_id = $signature_id
        AND origin NOT IN ('launches', 'report_phase')
        AND timing = 'timeline'
        AND trace_id NOT IN (SELECT trace_id FROM recorded)
    GROUP BY trace_id, phase
)

SELECT
    t.name AS trace,
    f.* EXCLUDE (trace_id)
FROM (FROM recorded UNION ALL BY NAME FROM reported) AS f
INNER JOIN traces AS t USING (trace_id)
WHERE coalesce(list_contains($traces::VARCHAR[], t.name), true)
ORDER BY t.name, f.total_ns DESC, f.phase;
