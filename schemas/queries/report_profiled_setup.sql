SELECT t.trace, t.source, coalesce(t.device_names, d.arch) AS device_names, t.launches, t.run
FROM trace_overview AS t
LEFT JOIN (
    SELECT traces.name AS trace, min(devices.arch) AS arch
    FROM devices
    INNER JOIN traces USING (trace_id)
    GROUP BY traces.name
) AS d USING (trace)
WHERE list_contains($traces::VARCHAR[], t.trace)
ORDER BY t.trace;
