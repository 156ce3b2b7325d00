-- Of which kernels of the runs $run_ids counters were read, by category and in total: shares of recorded time, and why not.
WITH counted AS (
    SELECT DISTINCT l.signature_id
    FROM launches AS l
    INNER JOIN traces AS t ON l.trace_id = t.trace_id AND t.kind = 'replay'
    WHERE list_contains($run_ids::VARCHAR[], t.metadata->>'replay_run')
),

-- A signature may belong to several calls: one of them with counters is enough.
replayed AS (
    SELECT
        s.category,
        r.signature_id,
        any_value(r.recorded_total_ns) AS total_ns,
        bool_or(k.signature_id IS NOT NULL) AS has_counters,
        arg_min(coalesce(c.counters_reason, r.reason, r.grade, 'not replayed'), r.grade) AS reason
    FROM (
        SELECT run_id, item_id, signature_id, sum(recorded_total_ns) AS recorded_total_ns, min(grade) AS grade, any_value(reason) AS reason
        FROM replays
        WHERE list_contains($run_ids::VARCHAR[], run_id)
        GROUP BY run_id, item_id, signature_id
        UNION ALL
        SELECT run_id, item_id, signature_id, sum(recorded_ns), min(grade), any_value(reason)
        FROM step_kernels
        WHERE list_contains($run_ids::VARCHAR[], run_id) AND mode = 'eager'
        GROUP BY run_id, item_id, signature_id
    ) AS r
    INNER JOIN signatures AS s ON r.signature_id = s.signature_id AND s.kind = 'kernel'
    LEFT JOIN replay_calls AS c ON r.run_id = c.run_id AND r.item_id = c.item_id
    LEFT JOIN counted AS k ON r.signature_id = k.signature_id
    GROUP BY s.category, r.item_id, r.signature_id
)

SELECT
    coalesce(category, 'TOTAL') AS category,
    count(DISTINCT signature_id) AS signatures,
    count(DISTINCT signature_id) FILTER (has_counters) AS counted,
    try_cast(sum(total_ns) AS BIGINT) AS recorded_ns,
    100 * coalesce(sum(total_ns) FILTER (has_counters), 0) / nullif(sum(total_ns), 0) AS counted_time_pct,
    string_agg(DISTINCT reason, '; ' ORDER BY reason) FILTER (NOT has_counters) AS reasons
FROM replayed
GROUP BY GROUPING SETS ((category), ())
ORDER BY grouping(category), recorded_ns DESC, category;
