-- What a launch may have waited for: its call (`point`), the last end on its stream, and `other_run`, a launch on another stream: that before an event
-- that the stream waits for, or, where neither call nor stream explain 10 µs and more, the last one on the device that ended meanwhile.
WITH runs AS (FROM critical_runs),

points AS (FROM critical_points),

-- The last end of each moment, by stream and by device.
ends AS (SELECT trace_id, device, place, end_ns, max(run) AS run FROM runs WHERE end_ns > start_ns GROUP BY ALL),

device_ends AS (SELECT trace_id, coalesce(device, -1) AS device, end_ns, max(run) AS run FROM runs WHERE end_ns > start_ns GROUP BY ALL),

-- Events that a stream waits for: the first launch on it after the call waits for the last one on the other stream before the event was recorded.
event_waits AS (
    SELECT w.trace_id, w.context, w.stream, w.waits_on_stream, w.start_ns, coalesce(c.start_ns, w.start_ns) AS recorded_ns
    FROM (SELECT s.trace_id, s.context, s.stream, s.waits_on_stream, s.waits_on_correlation_id, coalesce(c.start_ns, s.start_ns) AS start_ns
        FROM sync_events AS s
        LEFT JOIN api_calls AS c ON s.trace_id = c.trace_id AND s.correlation_id = c.correlation_id
        WHERE s.kind = 'stream_wait_event' AND s.waits_on_stream IS NOT NULL AND s.trace_id IN (SELECT trace_id FROM runs)) AS w
    LEFT JOIN api_calls AS c ON w.trace_id = c.trace_id AND w.waits_on_correlation_id = c.correlation_id
),

launched AS (SELECT trace_id, stream, run, start_ns, end_ns, launch_start_ns, launch_start_ns + shift_ns AS call_ns FROM runs WHERE launch_start_ns IS NOT NULL),

awaiting AS (
    SELECT e.*, l.run, l.start_ns AS starts_ns
    FROM event_waits AS e
    ASOF INNER JOIN (SELECT trace_id, stream, call_ns, min(run) AS run, min(start_ns) AS start_ns FROM launched GROUP BY ALL) AS l
        ON e.trace_id = l.trace_id AND e.stream = l.stream AND e.start_ns <= l.call_ns
),

ordered AS (
    SELECT a.run, max_by(l.run, (l.end_ns, l.run)) AS source
    FROM awaiting AS a
    ASOF INNER JOIN (SELECT trace_id, stream, call_ns, max(end_ns) AS end_ns, max_by(run, (end_ns, run)) AS run FROM launched GROUP BY ALL) AS l
        ON a.trace_id = l.trace_id AND a.waits_on_stream = l.stream AND a.recorded_ns >= l.call_ns
    WHERE l.end_ns <= a.starts_ns
    GROUP BY a.run
),

found AS (
    SELECT
        r.run, r.trace_id, r.device, r.start_ns, p.point, CASE WHEN p.point IS NOT NULL THEN r.launch_start_ns END AS call_ns,
        e.run AS stream_run, e.end_ns AS stream_ns, o.source AS event_run
    FROM runs AS r
    LEFT JOIN points AS p ON r.call_run = p.launches AND r.start_ns >= r.launch_start_ns
    LEFT JOIN ordered AS o ON r.run = o.run
    ASOF LEFT JOIN ends AS e ON r.trace_id = e.trace_id AND r.place = e.place AND r.start_ns >= e.end_ns
),

-- What a launch takes to start, and a stream from one to the next, where nothing else delays them.
typical AS (
    SELECT
        trace_id,
        coalesce(quantile_disc(start_ns - call_ns, 0.5) FILTER (call_ns >= coalesce(stream_ns, call_ns)), 0) AS latency_ns,
        coalesce(quantile_disc(start_ns - stream_ns, 0.5) FILTER (call_ns <= stream_ns), 0) AS pause_ns
    FROM found
    GROUP BY trace_id
),

timed AS (
    SELECT
        f.*,
        CASE WHEN f.point IS NOT NULL THEN least(f.start_ns, f.call_ns + t.latency_ns) END AS called_ns,
        CASE WHEN f.stream_run IS NOT NULL THEN least(f.start_ns, f.stream_ns + t.pause_ns) END AS free_ns
    FROM found AS f
    INNER JOIN typical AS t USING (trace_id)
)

SELECT
    t.*,
    coalesce(t.start_ns - greatest(t.called_ns, t.free_ns) >= 10000 AND d.end_ns > greatest(t.call_ns, t.stream_ns), false) AS is_late,
    CASE WHEN r.run IS NOT NULL THEN r.run WHEN is_late THEN d.run END AS other_run,
    CASE WHEN r.run IS NOT NULL THEN r.end_ns WHEN is_late THEN d.end_ns END AS other_ns
FROM timed AS t
LEFT JOIN runs AS r ON t.event_run = r.run
ASOF LEFT JOIN device_ends AS d
    ON t.trace_id = d.trace_id AND coalesce(t.device, -1) = d.device AND t.start_ns >= d.end_ns;
