-- What can be compared: the traces, with what distinguishes them.
SELECT trace, run, label, source, device_names, launches, window_ns
FROM trace_overview
ORDER BY ingested_at, trace;
