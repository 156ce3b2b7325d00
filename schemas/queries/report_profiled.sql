-- Traces with counters and the GPU of each: those named, and of the runs of named traces with times those that were counted on the same
-- model of GPU, as far as both are known; so are counters of replayed calls of their kernels. Of several prints of one report, the best one.
WITH described AS (
    SELECT DISTINCT
        t.name AS trace,
        t.trace_id,
        t.kind,
        t.run,
        t.repeats IS NULL AS is_best,
        d.name AS device_name,
        d.arch,
        list_contains($traces::VARCHAR[], t.name)
        OR t.trace_id IN (
            SELECT p.primary_trace_id
            FROM launch_prints AS p
            INNER JOIN traces AS other ON p.trace_id = other.trace_id
            WHERE list_contains($traces::VARCHAR[], other.name)
        ) AS is_named
    FROM traces AS t
    LEFT JOIN devices AS d USING (trace_id)
),

-- Traces with kernels that a replay launched, too.
replayed AS (
    SELECT DISTINCT r.trace_id, l.trace_id AS replay_id
    FROM (
        SELECT DISTINCT trace_id, signature_id
        FROM launches
        WHERE trace_id IN (SELECT trace_id FROM traces WHERE kind = 'replay')
    ) AS l
    INNER JOIN rollups AS r USING (signature_id)
),

chosen AS (
    SELECT p.*
    FROM described AS p
    WHERE
        p.kind IN ('profiled', 'replay')
        AND (
            p.is_named
            OR EXISTS (
                SELECT 1
                FROM described AS t
                WHERE
                    t.is_named
                    AND t.kind NOT IN ('profiled', 'replay')
                    AND (
                        t.run = p.run
                        OR (
                            p.kind = 'replay'
                            AND EXISTS (
                                SELECT 1 FROM replayed AS r WHERE r.trace_id = t.trace_id AND r.replay_id = p.trace_id
                            )
                        )
                    )
                    AND coalesce(t.arch = p.arch, true)
                    AND coalesce(t.device_name = p.device_name, true)
            )
        )
)

SELECT
    trace,
    coalesce(
        string_agg(DISTINCT device_name, ', ' ORDER BY device_name),
        'a GPU of the chip ' || string_agg(DISTINCT arch, ', ' ORDER BY arch),
        'an unknown GPU'
    ) AS gpu
FROM chosen
GROUP BY trace, trace_id, run, is_best
QUALIFY is_best OR NOT bool_or(is_best) OVER (PARTITION BY run)
ORDER BY gpu, trace;
