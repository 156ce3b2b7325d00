-- When no launch of a device ran, and what the host did meanwhile: one row per gap between two launches, in no order.
--
-- The cause follows from the launch call of the next launch. Where it began in the gap, the GPU waited for the host (`launch`). Where the thread of that call (its
-- process, without a thread) was in a synchronising call that began before the GPU ran dry and took at least half of the time until the launch call,
-- the host waited for the GPU first (`sync`; `allocation` for cudaMalloc and cudaFree, which may wait as well). Where the launch call began before
-- the gap, the launch was under way or waited for something else (`queued`). A next activity that is a copy makes it `copy`; without a launch call
-- nothing is known (`unknown`).
--
-- Columns:
--   trace, device: as in kernels
--   gap_start_ns BIGINT [ns]: When the last launch before it ended.
--   gap_end_ns BIGINT [ns]: When the next launch started.
--   gap_ns BIGINT [ns]: Length of the gap.
--   cause VARCHAR: What the GPU waited for: launch or copy (the host, to begin it), sync or allocation (the host, which had waited in waiting_call),
--     queued (launched before the gap), unknown (no launch call is known).
--   waiting_call VARCHAR: Synchronising or allocating call that reached into the gap, where it is the cause.
--   launch_start_ns BIGINT [ns]: When the host began the next launch call.
--   host_late_ns BIGINT [ns]: How long after the start of the gap that was.
--   previous VARCHAR: Short name of the launch that ended last before it.
--   next VARCHAR: Short name of the launch after.
--   next_op VARCHAR: Operator of the launch after.
--   phase VARCHAR: Phase of the launch after.
-- Example:
--   SELECT trace, device, gap_ns, cause, waiting_call, previous, next FROM idle_gaps() ORDER BY gap_ns DESC LIMIT 10;
CREATE OR REPLACE MACRO idle_gaps(source := 'kernels') AS TABLE
WITH _spans AS (
    SELECT
        trace,
        trace_id,
        device,
        process,
        api_index,
        kind,
        short_name,
        op,
        phase,
        launch_start_ns,
        start_ns,
        max(end_ns) OVER earlier AS gap_start_ns,
        -- One number for both: a window over pairs takes twice as long.
        arg_max(short_name, end_ns::HUGEINT * 1099511627776 + launch_index) OVER earlier AS previous
    FROM query_table(source)
    WHERE timing = 'timeline' AND start_ns IS NOT NULL AND end_ns IS NOT NULL
    WINDOW earlier AS (
        PARTITION BY trace, device ORDER BY start_ns, end_ns, launch_index ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),

_gaps AS (
    SELECT * FROM _spans WHERE start_ns > gap_start_ns
),

-- Every call twice, for its thread and for its process, where the thread of a launch is unknown.
_calls AS (
    SELECT
        trace_id,
        coalesce(process, '') AS process,
        unnest(list_distinct([coalesce(thread, ''), ''])) AS thread,
        start_ns,
        start_ns + duration_ns AS end_ns,
        name
    FROM api_calls
    WHERE
        (name ILIKE '%synchronize%' OR name IN ('cudaMemcpy', 'hipMemcpy', 'cudaFree', 'hipFree', 'cudaMalloc', 'hipMalloc'))
        AND duration_ns IS NOT NULL
        AND trace_id IN (SELECT trace_id FROM _gaps)
),

-- Of the calls that have begun, the one that ends last: one may be in another, or belong to another thread.
_waits AS (
    SELECT
        trace_id,
        process,
        thread,
        start_ns AS wait_start_ns,
        max(end_ns) OVER begun AS wait_end_ns,
        arg_max(name, (end_ns, name)) OVER begun AS wait_name
    FROM _calls
    WINDOW begun AS (PARTITION BY trace_id, process, thread ORDER BY start_ns)
),

_late AS (
    SELECT
        g.trace_id,
        g.device,
        g.start_ns,
        g.gap_start_ns,
        g.launch_start_ns,
        coalesce(c.process, g.process, '') AS process,
        coalesce(c.thread, '') AS thread
    FROM _gaps AS g
    LEFT JOIN api_calls AS c ON g.trace_id = c.trace_id AND g.api_index = c.api_index
    WHERE g.launch_start_ns > g.gap_start_ns AND g.trace_id IN (SELECT trace_id FROM _calls)
),

_waited AS (
    SELECT l.trace_id, l.device, l.start_ns, w.wait_name
    FROM _late AS l
    ASOF INNER JOIN _waits AS w
        ON l.trace_id = w.trace_id AND l.process = w.process AND l.thread = w.thread AND l.gap_start_ns >= w.wait_start_ns
    WHERE 2 * (least(w.wait_end_ns, l.launch_start_ns) - l.gap_start_ns) >= l.launch_start_ns - l.gap_start_ns
)

SELECT
    g.trace,
    g.device,
    g.gap_start_ns,
    g.start_ns AS gap_end_ns,
    g.start_ns - g.gap_start_ns AS gap_ns,
    CASE
        WHEN g.launch_start_ns IS NULL THEN 'unknown'
        WHEN w.wait_name IN ('cudaFree', 'hipFree', 'cudaMalloc', 'hipMalloc') THEN 'allocation'
        WHEN w.wait_name IS NOT NULL THEN 'sync'
        WHEN g.launch_start_ns <= g.gap_start_ns THEN 'queued'
        WHEN g.kind = 'memcpy' THEN 'copy'
        ELSE 'launch'
    END AS cause,
    w.wait_name AS waiting_call,
    g.launch_start_ns,
    greatest(0, g.launch_start_ns - g.gap_start_ns) AS host_late_ns,
    g.previous,
    g.short_name AS next,
    g.op AS next_op,
    g.phase
FROM _gaps AS g
LEFT JOIN _waited AS w ON g.trace_id = w.trace_id AND g.device IS NOT DISTINCT FROM w.device AND g.start_ns = w.start_ns;
