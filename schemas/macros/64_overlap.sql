-- How much of computation, communication and copies ran at the same time, per device. Times are lengths of unions of intervals (see
-- gpu_time); two kinds overlap by the sum of their lengths less the length of both together.
CREATE OR REPLACE MACRO overlap(source) AS TABLE
WITH activities AS (
    SELECT
        trace,
        device,
        start_ns,
        end_ns,
        CASE WHEN kind <> 'memcpy' AND category IS DISTINCT FROM 'COMMUNICATION' THEN end_ns END AS computation_end,
        CASE WHEN kind <> 'memcpy' AND category = 'COMMUNICATION' THEN end_ns END AS communication_end,
        CASE WHEN kind = 'memcpy' THEN end_ns END AS copy_end
    FROM query_table(source)
    WHERE timing = 'timeline' AND start_ns IS NOT NULL AND end_ns IS NOT NULL
),

preceded AS (
    SELECT
        *,
        max(computation_end) OVER earlier AS last_computation,
        max(communication_end) OVER earlier AS last_communication,
        max(copy_end) OVER earlier AS last_copy
    FROM activities
    WINDOW earlier AS (PARTITION BY trace, device ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),

added AS (
    SELECT
        trace,
        device,
        CASE WHEN computation_end IS NOT NULL THEN greatest(0, end_ns - greatest(start_ns, last_computation)) END AS computation_ns,
        CASE WHEN communication_end IS NOT NULL THEN greatest(0, end_ns - greatest(start_ns, last_communication)) END
            AS communication_ns,
        CASE WHEN copy_end IS NOT NULL THEN greatest(0, end_ns - greatest(start_ns, last_copy)) END AS copy_ns,
        CASE WHEN copy_end IS NULL THEN greatest(0, end_ns - greatest(start_ns, last_computation, last_communication)) END AS work_ns,
        CASE WHEN communication_end IS NULL THEN greatest(0, end_ns - greatest(start_ns, last_computation, last_copy)) END AS local_ns,
        CASE WHEN computation_end IS NULL THEN greatest(0, end_ns - greatest(start_ns, last_communication, last_copy)) END AS moved_ns,
        greatest(0, end_ns - greatest(start_ns, last_computation, last_communication, last_copy)) AS busy_ns
    FROM preceded
),

wide AS (
    SELECT
        trace,
        device,
        coalesce(sum(computation_ns), 0)::BIGINT AS computation_ns,
        coalesce(sum(communication_ns), 0)::BIGINT AS communication_ns,
        coalesce(sum(copy_ns), 0)::BIGINT AS copy_ns,
        coalesce(sum(work_ns), 0)::BIGINT AS work_ns,
        coalesce(sum(local_ns), 0)::BIGINT AS local_ns,
        coalesce(sum(moved_ns), 0)::BIGINT AS moved_ns,
        sum(busy_ns)::BIGINT AS busy_ns
    FROM added
    GROUP BY trace, device
)

SELECT
    trace,
    device,
    busy_ns,
    computation_ns,
    communication_ns,
    copy_ns,
    computation_ns + communication_ns - work_ns AS computation_communication_ns,
    computation_ns + copy_ns - local_ns AS computation_copy_ns,
    communication_ns + copy_ns - moved_ns AS communication_copy_ns,
    work_ns - computation_ns AS exposed_communication_ns,
    busy_ns - work_ns AS exposed_copy_ns,
    100 * (computation_ns + communication_ns - work_ns) / nullif(communication_ns, 0) AS hidden_communication_pct
FROM wide
ORDER BY trace, device;
