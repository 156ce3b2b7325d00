-- The traces of a timeline: when their launches began and ended by their own clock, and `shift_ns`, what takes that to the axis. Traces of one run
-- whose clocks are the same, and whose launches overlap, keep their distances (`aligned`); else each begins at 0. `reason` says why one has no
-- timeline. Sums are wider than 64 bits: a damaged clock may be anywhere.
WITH held AS (
    SELECT
        t.name AS trace,
        t.trace_id,
        t.run,
        t.rank,
        t.kind,
        t.clock,
        t.base_ns::HUGEINT AS base_ns,
        coalesce(t.launches_start_ns, l.first_ns) AS first_ns,
        coalesce(t.launches_end_ns, l.last_ns) AS last_ns,
        t.bin_ns,
        coalesce(p.profiled, false) AS profiled,
        d.device_names AS devices,
        coalesce(d.processes, 1) AS processes
    FROM traces AS t
    LEFT JOIN (
        -- Of traces that an older kerneldb added.
        SELECT trace_id, min(start_ns) AS first_ns, max(end_ns) AS last_ns
        FROM launches
        WHERE
            timing = 'timeline'
            AND start_ns IS NOT NULL
            AND end_ns IS NOT NULL
            AND trace_id IN (SELECT trace_id FROM traces WHERE launches > 0 AND launches_start_ns IS NULL)
        GROUP BY trace_id
    ) AS l USING (trace_id)
    LEFT JOIN (SELECT trace_id, bool_or(timing <> 'timeline') AS profiled FROM rollups GROUP BY trace_id) AS p USING (trace_id)
    LEFT JOIN (
        SELECT trace_id, string_agg(DISTINCT name, ', ' ORDER BY name) AS device_names, count(DISTINCT process) AS processes
        FROM devices
        GROUP BY trace_id
    ) AS d USING (trace_id)
    WHERE $traces::VARCHAR[] IS NULL OR list_contains($traces::VARCHAR[], t.name)
),

timed AS (
    SELECT
        min(base_ns + first_ns) AS origin_ns,
        coalesce(
            count(*) > 1
            AND count(DISTINCT (run, clock)) = 1
            AND bool_and(run IS NOT NULL AND clock IS NOT NULL AND base_ns IS NOT NULL)
            AND max(base_ns + first_ns) < min(base_ns + last_ns),
            false
        ) AS aligned
    FROM held
    WHERE first_ns IS NOT NULL
)

SELECT
    held.trace,
    held.trace_id,
    held.first_ns,
    held.last_ns,
    CASE WHEN timed.aligned THEN held.base_ns - timed.origin_ns ELSE -held.first_ns::HUGEINT END AS shift_ns,
    held.processes,
    held.devices,
    held.bin_ns,
    timed.aligned,
    CASE
        WHEN held.first_ns IS NOT NULL THEN NULL
        WHEN held.profiled THEN 'launches ran one by one under a counter profiler, so their times make no timeline'
        WHEN held.kind = 'summary' THEN 'holds sums only, no single launches'
        ELSE 'holds no launches with times'
    END AS reason
FROM held
CROSS JOIN timed
ORDER BY held.run, held.rank, held.trace;
