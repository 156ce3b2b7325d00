-- GPU time of `selection` in $bins equal parts of the window of each trace, per stream; the $lanes streams with most time.
WITH spans AS (
    SELECT trace_id, min(start_ns) AS start_ns, greatest(max(end_ns) - min(start_ns), 1) AS span_ns
    FROM selection
    WHERE timing = 'timeline' AND start_ns IS NOT NULL
    GROUP BY trace_id
),

binned AS (
    SELECT
        any_value(s.trace) AS trace,
        s.trace_id,
        s.device,
        s.stream,
        least(($bins * (s.start_ns - w.start_ns)) // w.span_ns, $bins - 1) AS bin,
        sum(s.duration_ns)::BIGINT AS total_ns,
        any_value(w.span_ns) AS span_ns
    FROM selection AS s
    INNER JOIN spans AS w USING (trace_id)
    WHERE s.timing = 'timeline' AND s.start_ns IS NOT NULL
    GROUP BY s.trace_id, s.device, s.stream, bin
)

SELECT
    any_value(trace) AS trace,
    device,
    stream,
    sum(total_ns)::BIGINT AS total_ns,
    any_value(span_ns) AS span_ns,
    list(bin ORDER BY bin) AS bins,
    list(total_ns ORDER BY bin) AS totals
FROM binned
GROUP BY trace_id, device, stream
ORDER BY total_ns DESC, trace, device, stream
LIMIT $lanes;
