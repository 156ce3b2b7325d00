-- Where the time of each device went. The length of a union of intervals is what each adds behind the latest end before it, summed in
-- the order of their starts. Computation is what neither communicates nor copies; fills (memset) count as computation, as in TraceLens'
-- gpu_timeline. Exposed is what no computation hides (for copies: neither computation nor communication).
CREATE OR REPLACE MACRO gpu_time(source) AS TABLE
WITH activities AS (
    SELECT
        trace,
        device,
        kind,
        start_ns,
        end_ns,
        duration_ns,
        CASE WHEN kind <> 'memcpy' AND category IS DISTINCT FROM 'COMMUNICATION' THEN end_ns END AS computation_end,
        CASE WHEN kind <> 'memcpy' AND category = 'COMMUNICATION' THEN end_ns END AS communication_end,
        CASE WHEN kind = 'memcpy' THEN end_ns END AS memcpy_end
    FROM query_table(source)
    WHERE timing = 'timeline' AND start_ns IS NOT NULL AND end_ns IS NOT NULL
),

preceded AS (
    SELECT
        *,
        max(computation_end) OVER earlier AS last_computation,
        max(communication_end) OVER earlier AS last_communication,
        max(memcpy_end) OVER earlier AS last_memcpy
    FROM activities
    WINDOW earlier AS (PARTITION BY trace, device ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),

summed AS (
    SELECT
        trace,
        device,
        count(*) AS n,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns,
        sum(duration_ns)::BIGINT AS total_ns,
        coalesce(sum(duration_ns) FILTER (kind = 'kernel'), 0)::BIGINT AS kernel_ns,
        sum(greatest(0, end_ns - greatest(start_ns, last_computation, last_communication, last_memcpy)))::BIGINT AS busy_ns,
        coalesce(
            sum(greatest(0, end_ns - greatest(start_ns, last_computation, last_communication)))
                FILTER (memcpy_end IS NULL),
            0
        )::BIGINT AS work_ns,
        coalesce(sum(greatest(0, computation_end - greatest(start_ns, last_computation))) FILTER (computation_end IS NOT NULL), 0)
            ::BIGINT AS computation_ns,
        coalesce(
            sum(greatest(0, communication_end - greatest(start_ns, last_communication))) FILTER (communication_end IS NOT NULL), 0
        )::BIGINT AS communication_ns,
        coalesce(sum(greatest(0, memcpy_end - greatest(start_ns, last_memcpy))) FILTER (memcpy_end IS NOT NULL), 0)
            ::BIGINT AS memcpy_ns
    FROM preceded
    GROUP BY trace, device
)

SELECT
    trace,
    device,
    n,
    start_ns,
    end_ns,
    end_ns - start_ns AS span_ns,
    busy_ns,
    end_ns - start_ns - busy_ns AS idle_ns,
    100 * busy_ns / nullif(end_ns - start_ns, 0) AS busy_pct,
    total_ns,
    kernel_ns,
    total_ns - busy_ns AS overlap_ns,
    computation_ns,
    communication_ns AS total_communication_ns,
    work_ns - computation_ns AS exposed_communication_ns,
    memcpy_ns AS total_memcpy_ns,
    busy_ns - work_ns AS exposed_memcpy_ns
FROM summed
ORDER BY trace, device;
