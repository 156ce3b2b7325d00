-- The windows of a trace for which power is integrated: the trace as a whole, each stretch of consecutive launches of one phase, each range.
CREATE OR REPLACE VIEW _power_windows AS
SELECT
    t.name AS trace,
    'trace' AS kind,
    t.name,
    NULL::INTEGER AS device,
    t.window_start_ns AS start_ns,
    t.window_end_ns AS end_ns
FROM traces AS t
WHERE t.window_end_ns > t.window_start_ns AND t.launches > 0
UNION ALL
SELECT trace, 'phase' AS kind, phase AS name, device, min(start_ns) AS start_ns, max(end_ns) AS end_ns
FROM (
    SELECT
        *,
        sum((phase IS DISTINCT FROM phase_before)::INTEGER) OVER (PARTITION BY trace, device ORDER BY start_ns, launch_index) AS stretch
    FROM (
        SELECT
            t.name AS trace,
            coalesce(l.phase, t.default_phase) AS phase,
            l.device,
            l.start_ns,
            l.end_ns,
            l.launch_index,
            lag(coalesce(l.phase, t.default_phase)) OVER (PARTITION BY t.name, l.device ORDER BY l.start_ns, l.launch_index) AS phase_before
        FROM launches AS l
        LEFT JOIN traces AS t USING (trace_id)
        WHERE l.timing = 'timeline' AND l.start_ns IS NOT NULL AND l.end_ns IS NOT NULL
    )
)
WHERE phase IS NOT NULL
GROUP BY trace, phase, device, stretch
UNION ALL
SELECT t.name AS trace, 'range' AS kind, r.name, r.device, r.start_ns, r.start_ns + r.duration_ns AS end_ns
FROM ranges AS r
INNER JOIN traces AS t USING (trace_id)
WHERE r.duration_ns > 0;
