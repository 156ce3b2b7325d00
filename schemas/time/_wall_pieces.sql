-- What each nanosecond of a device went to: pieces of time without gaps and without overlap, each with one cause. The rules are those of docs/why.md.
--
-- From the start of the first launch to the end of the last, so that the pieces of a device add up to span_ns of gpu_time exactly. `part` is computation,
-- communication (that no computation hides), copy (that neither hides), host (the GPU waited for it), queue (the next launch had been made, but had not
-- started) or unattributed. `cause` is what of it: of communication transfer, waiting for a rank, or unsplit (not all ranks are here); of the host
-- launching, synchronisation, allocation, blocking copy, data loading, garbage collection, loading code, other call or profiler; of the queue dependency
-- (a wait for an event of another stream), launch latency (the host was late, and then the launch took its time to start) or between launches (it had
-- been made before). `launch_index` is the launch that ran; of host, queue and unattributed the one that ended the gap. `call` with its columns is what
-- was open on the host, or had held it up until then; `late_rank` the rank that was waited for.
CREATE OR REPLACE MACRO _wall_pieces(source) AS TABLE
WITH _used AS MATERIALIZED (FROM _wall_launches(source)),

_swept AS MATERIALIZED (FROM _wall_sweep('_used')),

_places AS (SELECT DISTINCT place, trace, trace_id, device FROM _used),

_waits AS MATERIALIZED (FROM _host_waits('_used')),

_event_waits AS (
    SELECT DISTINCT trace_id
    FROM api_calls
    WHERE trace_id IN (SELECT trace_id FROM _places) AND name ILIKE '%StreamWaitEvent%'
),

-- Threads matter where anything may have held them up, or an event was waited for.
_gaps AS MATERIALIZED (
    SELECT g.place, p.trace_id, g.launch_index, g.start_ns, g.end_ns, g.host_ns, g.launch_start_ns, g.api_index, g.previous_api, g.process
    FROM _swept AS g
    INNER JOIN _places AS p USING (place)
    WHERE
        g.class = 0
        AND g.host_ns IS NOT NULL
        AND (p.trace_id IN (SELECT trace_id FROM _waits) OR p.trace_id IN (FROM _event_waits))
),

-- Mostly one thread makes all calls of a trace, which need not be looked for then.
_alone AS (
    SELECT trace_id, any_value(process) AS process, any_value(thread) AS thread
    FROM api_calls
    WHERE trace_id IN (SELECT trace_id FROM _places)
    GROUP BY trace_id
    HAVING min(process) = max(process) AND min(thread) = max(thread) AND count(process) = count(*) AND count(thread) = count(*)
),

_callers AS (
    SELECT * FROM api_calls WHERE trace_id IN (SELECT trace_id FROM _places) AND trace_id NOT IN (SELECT trace_id FROM _alone)
),

_threads AS MATERIALIZED (
    SELECT
        g.*,
        coalesce(o.process, c.process, g.process) AS host_process,
        coalesce(o.thread, c.thread) AS thread,
        coalesce(o.thread, b.thread, c.thread) AS other_thread
    FROM _gaps AS g
    LEFT JOIN _alone AS o USING (trace_id)
    LEFT JOIN _callers AS c ON g.trace_id = c.trace_id AND g.api_index = c.api_index
    LEFT JOIN _callers AS b ON g.trace_id = b.trace_id AND g.previous_api = b.api_index AND b.process IS NOT DISTINCT FROM c.process
),

_ordered_gaps AS MATERIALIZED (FROM _wall_ordered('_used', '_threads')),

-- A launch starts some µs after its call; of what takes longer than 100 µs the reason is not known.
_late AS (
    SELECT t.*, CASE WHEN o.is_ordered THEN t.host_ns ELSE least(t.end_ns, t.host_ns + 100000) END AS queue_ns
    FROM _threads AS t
    LEFT JOIN _ordered_gaps AS o USING (place, launch_index)
    WHERE t.host_ns > t.start_ns
),

_held AS MATERIALIZED (FROM _wall_held('_late', '_waits')),

_joined AS (FROM _wall_exchanges('_swept', '_places')),

-- Of the host's calls that are to blame, some have the time in which the launch started, too.
_owed AS (SELECT place, launch_index, max(end_ns) AS owed_ns FROM _held GROUP BY ALL),

_queued AS (
    SELECT
        g.place,
        g.launch_index,
        greatest(g.start_ns, g.host_ns, h.owed_ns) AS start_ns,
        coalesce(o.is_ordered, false) AS is_ordered,
        g.host_ns > g.start_ns AS is_late,
        CASE
            WHEN o.is_ordered THEN g.end_ns
            WHEN g.host_ns IS NOT NULL THEN least(g.end_ns, g.host_ns + 100000)
            ELSE g.start_ns
        END AS queued_ns,
        g.end_ns
    FROM _swept AS g
    LEFT JOIN _ordered_gaps AS o ON g.place = o.place AND g.launch_index = o.launch_index
    LEFT JOIN _owed AS h ON g.place = h.place AND g.launch_index = h.launch_index
    WHERE g.class = 0
),

_pieces AS (
    SELECT
        place, start_ns, end_ns, CASE class WHEN 1 THEN 'computation' ELSE 'copy' END AS part, part AS cause, launch_index, NULL::BIGINT AS number,
        NULL::INTEGER AS late_rank
    FROM _swept
    WHERE class IN (1, 3)
    UNION ALL
    SELECT place, start_ns, joined_ns, 'communication', 'waiting for a rank', launch_index, NULL, late_rank
    FROM _joined
    WHERE joined_ns > start_ns
    UNION ALL
    SELECT place, joined_ns, end_ns, 'communication', CASE WHEN is_split THEN 'transfer' ELSE 'unsplit' END, launch_index, NULL, NULL
    FROM _joined
    WHERE end_ns > joined_ns
    UNION ALL
    SELECT place, start_ns, end_ns, 'host', 'launching', launch_index, number, NULL
    FROM _held
    UNION ALL
    SELECT g.place, g.start_ns, g.host_ns, 'host', 'launching', g.launch_index, NULL, NULL
    FROM _swept AS g
    ANTI JOIN _held AS h ON g.place = h.place AND g.launch_index = h.launch_index
    WHERE g.host_ns > g.start_ns
    UNION ALL
    SELECT place, start_ns, queued_ns, 'queue', CASE WHEN is_ordered THEN 'dependency' WHEN is_late THEN 'launch latency' ELSE 'between launches' END, launch_index, NULL, NULL
    FROM _queued
    WHERE queued_ns > start_ns
    UNION ALL
    SELECT place, queued_ns, end_ns, 'unattributed', 'unattributed', launch_index, NULL, NULL
    FROM _queued
    WHERE end_ns > queued_ns
)

SELECT
    o.trace,
    o.trace_id,
    o.device,
    p.start_ns,
    p.end_ns,
    p.end_ns - p.start_ns AS duration_ns,
    p.part,
    coalesce(w.cause, p.cause) AS cause,
    p.launch_index,
    p.number AS wait_number,
    w.name AS call,
    w.api_index,
    w.process AS call_process,
    w.thread AS call_thread,
    w.start_ns AS call_start_ns,
    w.end_ns - w.start_ns AS call_ns,
    p.late_rank
FROM _pieces AS p
INNER JOIN _places AS o USING (place)
LEFT JOIN _waits AS w ON p.number = w.number;
