-- GPU time of `selection` in $bins equal parts of the window of each trace, per stream of a process; the $lanes streams with most time.
-- `processes` is how many each trace has. A damaged clock makes spans of which no BIGINT holds $bins times as much.
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
        s.process,
        s.device,
        s.stream,
        least(floor($bins * (s.start_ns - w.start_ns)::DOUBLE / w.span_ns)::BIGINT, $bins - 1) AS bin,
        try_cast(sum(s.duration_ns) AS BIGINT) AS total_ns,
        any_value(w.span_ns) AS span_ns
    FROM selection AS s
    INNER JOIN spans AS w USING (trace_id)
    WHERE s.timing = 'timeline' AND s.start_ns IS NOT NULL
    GROUP BY s.trace_id, s.process, s.device, s.stream, bin
),

streams AS (
    SELECT
        any_value(trace) AS trace,
        process,
        device,
        stream,
        try_cast(sum(total_ns) AS BIGINT) AS total_ns,
        any_value(span_ns) AS span_ns,
        list(bin ORDER BY bin) AS bins,
        list(total_ns ORDER BY bin) AS totals
    FROM binned
    GROUP BY trace_id, process, device, stream
)

SELECT *, count(DISTINCT coalesce(process, '')) OVER (PARTITION BY trace) AS processes
FROM streams
ORDER BY total_ns DESC NULLS LAST, trace, process, device, stream
LIMIT $lanes;
