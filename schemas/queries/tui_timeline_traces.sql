-- The traces of a timeline: when their launches began and ended by their own clock, and whether they hold launches of another kind.
SELECT
    t.name AS trace,
    t.trace_id,
    t.run,
    t.rank,
    t.kind,
    t.clock,
    t.base_ns,
    coalesce(t.launches_start_ns, l.first_ns) AS first_ns,
    coalesce(t.launches_end_ns, l.last_ns) AS last_ns,
    t.bin_ns,
    coalesce(p.profiled, false) AS profiled,
    d.device_names,
    coalesce(d.processes, 1) AS processes
FROM traces AS t
LEFT JOIN (
    -- Of traces that an older kerneldb added.
    SELECT trace_id, min(start_ns) AS first_ns, max(end_ns) AS last_ns
    FROM launches
    WHERE
        timing = 'timeline'
        AND start_ns IS NOT NULL
        AND end_ns IS NOT NULL
        AND trace_id IN (SELECT trace_id FROM traces WHERE launches > 0 AND launches_start_ns IS NULL)
    GROUP BY trace_id
) AS l USING (trace_id)
LEFT JOIN (SELECT trace_id, bool_or(timing <> 'timeline') AS profiled FROM rollups GROUP BY trace_id) AS p USING (trace_id)
LEFT JOIN (
    SELECT trace_id, string_agg(DISTINCT name, ', ' ORDER BY name) AS device_names, count(DISTINCT process) AS processes
    FROM devices
    GROUP BY trace_id
) AS d USING (trace_id)
WHERE $traces::VARCHAR[] IS NULL OR list_contains($traces::VARCHAR[], t.name)
ORDER BY t.run, t.rank, t.name;
