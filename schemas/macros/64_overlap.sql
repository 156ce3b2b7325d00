-- How much of computation, communication and copies ran at the same time, per device. Times are lengths of unions of intervals; two
-- kinds overlap by the sum of their lengths less the length of both together.
CREATE OR REPLACE MACRO overlap(source) AS TABLE
WITH activities AS (
    SELECT
        trace,
        device,
        start_ns,
        end_ns,
        CASE
            WHEN kind = 'memcpy' THEN 'copy'
            WHEN category = 'COMMUNICATION' THEN 'communication'
            ELSE 'computation'
        END AS class
    FROM query_table(source)
    WHERE timing = 'timeline' AND start_ns IS NOT NULL AND end_ns IS NOT NULL
),

classes AS (
    SELECT * FROM (VALUES
        ('computation', ['computation']),
        ('communication', ['communication']),
        ('copy', ['copy']),
        ('computation and communication', ['computation', 'communication']),
        ('computation and copy', ['computation', 'copy']),
        ('communication and copy', ['communication', 'copy']),
        ('all', ['computation', 'communication', 'copy'])
    ) AS named (what, members)
),

preceded AS (
    SELECT
        a.trace,
        a.device,
        c.what,
        a.start_ns,
        a.end_ns,
        max(a.end_ns) OVER (
            PARTITION BY a.trace, a.device, c.what ORDER BY a.start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS last_end_ns
    FROM activities AS a
    INNER JOIN classes AS c ON list_contains(c.members, a.class)
),

lengths AS (
    SELECT trace, device, what, sum(greatest(0, end_ns - greatest(start_ns, last_end_ns)))::BIGINT AS union_ns
    FROM preceded
    GROUP BY trace, device, what
),

wide AS (
    SELECT
        trace,
        device,
        coalesce(sum(union_ns) FILTER (what = 'computation'), 0)::BIGINT AS computation_ns,
        coalesce(sum(union_ns) FILTER (what = 'communication'), 0)::BIGINT AS communication_ns,
        coalesce(sum(union_ns) FILTER (what = 'copy'), 0)::BIGINT AS copy_ns,
        coalesce(sum(union_ns) FILTER (what = 'computation and communication'), 0)::BIGINT AS work_ns,
        coalesce(sum(union_ns) FILTER (what = 'computation and copy'), 0)::BIGINT AS local_ns,
        coalesce(sum(union_ns) FILTER (what = 'communication and copy'), 0)::BIGINT AS moved_ns,
        coalesce(sum(union_ns) FILTER (what = 'all'), 0)::BIGINT AS busy_ns
    FROM lengths
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
