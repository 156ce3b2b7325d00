-- Every time in which no launch of a device ran, with what the host did: one row per gap between two launches. The launch call of the
-- next launch tells: where it began in the gap, the GPU waited for the host (`launch`), or, if a synchronising call of the host
-- reached into the gap, for the host to come back from it (`sync`); where it began before, the launch was under way or waited for
-- something else (`queued`). A next activity that is a copy makes it `copy`; without a launch call nothing is known.
CREATE OR REPLACE MACRO idle_gaps(source) AS TABLE
WITH spans AS (
    SELECT
        trace,
        trace_id,
        device,
        kind,
        short_name,
        op,
        phase,
        launch_start_ns,
        start_ns,
        max(end_ns) OVER earlier AS gap_start_ns,
        lag(short_name) OVER earlier AS previous
    FROM query_table(source)
    WHERE timing = 'timeline' AND start_ns IS NOT NULL AND end_ns IS NOT NULL
    WINDOW earlier AS (PARTITION BY trace, device ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),

gaps AS (
    SELECT * FROM spans WHERE start_ns > gap_start_ns
),

waits AS (
    SELECT trace_id, start_ns AS wait_start_ns, start_ns + duration_ns AS wait_end_ns, name AS wait_name
    FROM api_calls
    WHERE
        (name ILIKE '%synchronize%' OR name IN ('cudaMemcpy', 'hipMemcpy', 'cudaFree', 'hipFree', 'cudaMalloc', 'hipMalloc'))
        AND duration_ns IS NOT NULL
        AND trace_id IN (SELECT trace_id FROM gaps)
),

explained AS (
    SELECT gaps.*, waits.wait_name, waits.wait_end_ns
    FROM gaps
    ASOF LEFT JOIN waits ON gaps.trace_id = waits.trace_id AND gaps.launch_start_ns >= waits.wait_start_ns
)

SELECT
    trace,
    device,
    gap_start_ns,
    start_ns AS gap_end_ns,
    start_ns - gap_start_ns AS gap_ns,
    CASE
        WHEN launch_start_ns IS NULL THEN 'unknown'
        WHEN wait_end_ns > gap_start_ns AND launch_start_ns > gap_start_ns THEN 'sync'
        WHEN launch_start_ns <= gap_start_ns THEN 'queued'
        WHEN kind = 'memcpy' THEN 'copy'
        ELSE 'launch'
    END AS cause,
    CASE WHEN wait_end_ns > gap_start_ns AND launch_start_ns > gap_start_ns THEN wait_name END AS waiting_call,
    launch_start_ns,
    greatest(0, launch_start_ns - gap_start_ns) AS host_late_ns,
    previous,
    short_name AS next,
    op AS next_op,
    phase
FROM explained;
