-- What each nanosecond of a device went to: pieces of time without gaps and without overlap, each with one cause. The rules are those of docs/why.md.
--
-- From the start of the first launch to the end of the last, so that the pieces of a device add up to span_ns of gpu_time exactly. `part` is computation,
-- communication (that no computation hides), copy (that neither hides), host (the GPU waited for it), queue (the next launch had been made, but had not
-- started) or unattributed. `cause` is what of it: of communication transfer, waiting for a rank, or unsplit (not all ranks show it); of the host
-- launching, synchronisation, allocation, blocking copy, data loading, garbage collection, loading code, other call or profiler; of the queue dependency
-- (a wait for an event of another stream), launch latency (the host was late, and then the launch took its time to start) or between launches (it had
-- been made before). `launch_index` is the launch that ran; of host, queue and unattributed the one that ended the gap. `call` with its columns is what
-- was open on the host, or had held it up until then; `late_rank` the rank that was waited for.
CREATE OR REPLACE MACRO _wall_pieces(source) AS TABLE
WITH _used AS MATERIALIZED (FROM _wall_launches(source)),

_places AS MATERIALIZED (FROM _wall_places('_used')),

_waits AS MATERIALIZED (FROM _wall_waits('_used', '_places')),

_cuts AS (FROM _wall_cuts('_used', '_places', '_waits'))

SELECT
    o.trace,
    o.trace_id,
    o.device,
    p.start_ns,
    p.end_ns,
    p.end_ns - p.start_ns AS duration_ns,
    c.part,
    coalesce(w.cause, c.cause) AS cause,
    p.launch_index,
    p.number AS wait_number,
    w.name AS call,
    w.api_index,
    w.process AS call_process,
    w.thread AS call_thread,
    w.start_ns AS call_start_ns,
    w.end_ns - w.start_ns AS call_ns,
    p.late_rank
FROM _cuts AS p
INNER JOIN _places AS o USING (place)
INNER JOIN _wall_causes() AS c USING (code)
LEFT JOIN _waits AS w ON p.number = w.number;
