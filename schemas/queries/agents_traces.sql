-- The traces, newest first.
SELECT trace, run, label, kind, source, device_names, launches, is_primary, window_ns, tags, ingested_at
FROM trace_overview
ORDER BY ingested_at DESC, trace;
