-- Lengths of unions of intervals, per device: of all its work and of each kind of it, alone and in pairs. The length of a union is what each interval
-- adds behind the latest end before it, summed in the order of their starts. Computation is what neither communicates nor copies, so fills
-- (memset) are part of it.
CREATE OR REPLACE MACRO _time_unions(source) AS TABLE
WITH _activities AS (
    SELECT
        trace,
        device,
        kind,
        start_ns,
        end_ns,
        duration_ns,
        CASE WHEN kind != 'memcpy' AND category IS DISTINCT FROM 'COMMUNICATION' THEN end_ns END AS computation_end,
        CASE WHEN kind != 'memcpy' AND category = 'COMMUNICATION' THEN end_ns END AS communication_end,
        CASE WHEN kind = 'memcpy' THEN end_ns END AS copy_end
    FROM query_table(source)
    WHERE timing = 'timeline' AND start_ns IS NOT NULL AND end_ns IS NOT NULL
),

_preceded AS (
    SELECT
        *,
        max(computation_end) OVER earlier AS last_computation,
        max(communication_end) OVER earlier AS last_communication,
        max(copy_end) OVER earlier AS last_copy
    FROM _activities
    WINDOW earlier AS (PARTITION BY trace, device ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),

_added AS (
    SELECT
        *,
        CASE WHEN computation_end IS NOT NULL THEN greatest(0, end_ns - greatest(start_ns, last_computation)) END AS computation_ns,
        CASE WHEN communication_end IS NOT NULL THEN greatest(0, end_ns - greatest(start_ns, last_communication)) END
            AS communication_ns,
        CASE WHEN copy_end IS NOT NULL THEN greatest(0, end_ns - greatest(start_ns, last_copy)) END AS copy_ns,
        CASE WHEN copy_end IS NULL THEN greatest(0, end_ns - greatest(start_ns, last_computation, last_communication)) END AS work_ns,
        CASE WHEN communication_end IS NULL THEN greatest(0, end_ns - greatest(start_ns, last_computation, last_copy)) END AS local_ns,
        CASE WHEN computation_end IS NULL THEN greatest(0, end_ns - greatest(start_ns, last_communication, last_copy)) END AS moved_ns,
        greatest(0, end_ns - greatest(start_ns, last_computation, last_communication, last_copy)) AS busy_ns
    FROM _preceded
)

SELECT
    trace,
    device,
    count(*) AS n,
    min(start_ns) AS start_ns,
    max(end_ns) AS end_ns,
    try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
    try_cast(coalesce(sum(duration_ns) FILTER (kind = 'kernel'), 0) AS BIGINT) AS kernel_ns,
    try_cast(sum(busy_ns) AS BIGINT) AS busy_ns,
    try_cast(coalesce(sum(computation_ns), 0) AS BIGINT) AS computation_ns,
    try_cast(coalesce(sum(communication_ns), 0) AS BIGINT) AS communication_ns,
    try_cast(coalesce(sum(copy_ns), 0) AS BIGINT) AS copy_ns,
    try_cast(coalesce(sum(work_ns), 0) AS BIGINT) AS computation_or_communication_ns,
    try_cast(coalesce(sum(local_ns), 0) AS BIGINT) AS computation_or_copy_ns,
    try_cast(coalesce(sum(moved_ns), 0) AS BIGINT) AS communication_or_copy_ns
FROM _added
GROUP BY trace, device;
