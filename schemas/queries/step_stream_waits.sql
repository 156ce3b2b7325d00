-- Streams that wait for others, as called in a window of time: a stream, from `at_ns` on, for what another one was given until `until_ns`.
SELECT DISTINCT
    s.stream,
    coalesce(w.start_ns, s.start_ns) AS at_ns,
    s.waits_on_stream AS on_stream,
    coalesce(r.start_ns, w.start_ns, s.start_ns) AS until_ns
FROM sync_events AS s
LEFT JOIN api_calls AS w ON s.trace_id = w.trace_id AND s.correlation_id = w.correlation_id
LEFT JOIN api_calls AS r ON s.trace_id = r.trace_id AND s.waits_on_correlation_id = r.correlation_id
WHERE
    s.trace_id = $trace_id
    AND s.kind = 'stream_wait_event'
    AND s.waits_on_stream <> s.stream
    AND coalesce(w.start_ns, s.start_ns) BETWEEN $from_ns AND $until_ns
ORDER BY at_ns, s.stream, on_stream, until_ns;
