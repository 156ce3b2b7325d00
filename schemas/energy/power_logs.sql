-- Which power samples belong to which GPU of which trace, and why none do.
--
-- Samples belong to a trace by wall-clock time and by GPU: by UUID, else by number unless the names differ, else where each has one GPU only. Samples
-- of a run that `--run` named belong to no other named run. A time of the trace plus `offset_ns` is a time of the samples.
--
-- Columns:
--   trace: as in kernels
--   device INTEGER: GPU of the trace.
--   log VARCHAR: Name of the trace that holds the samples.
--   source VARCHAR: Where the samples come from: record, replay, log or trace.
--   log_device INTEGER: Number of the GPU in the samples.
--   gpu VARCHAR: UUID, bus id or name of the GPU in the samples.
--   matched_by VARCHAR: How the GPU was recognised: own (samples of the trace itself), uuid, device number, only GPU.
--   method VARCHAR: What energy is taken from: energy counter, or power.
--   samples BIGINT: How many samples the series has.
--   period_ns BIGINT [ns]: Median time between changes of the power reading: what happens faster is not seen.
--   counter_step_ns BIGINT [ns]: Median time between steps of the energy counter.
--   overlap_pct DOUBLE [%]: Share of the trace's window between the first and the last sample.
--   reason VARCHAR: Why there are no samples: clock, time, GPU, or nothing measured.
--   offset_ns BIGINT [ns]: What to add to a time of the trace to have a time of the samples.
--   series VARCHAR: Id of the samples of one GPU in one log.
-- Example:
--   SELECT trace, device, log, matched_by, method, period_ns, reason FROM power_logs;
CREATE OR REPLACE VIEW power_logs AS
WITH stated AS (
    SELECT DISTINCT stated_run AS run FROM traces WHERE stated_run IS NOT NULL
),

used AS (
    SELECT
        t.name AS trace,
        t.trace_id,
        stated.run AS stated_run,
        t.clock,
        t.base_ns,
        t.base_ns + t.window_start_ns AS from_ns,
        t.base_ns + t.window_end_ns AS to_ns,
        g.device,
        d.name AS device_name,
        d.uuid,
        count(*) OVER (PARTITION BY t.name) AS gpus
    FROM (SELECT DISTINCT trace_id, device FROM rollups) AS g
    LEFT JOIN traces AS t USING (trace_id)
    LEFT JOIN stated ON t.run = stated.run
    LEFT JOIN (
        SELECT trace_id, device, min(name) AS name, min(nullif(regexp_extract(properties, '"uuid": ?"([^"]+)"', 1), '')) AS uuid
        FROM devices
        GROUP BY trace_id, device
    ) AS d ON g.trace_id = d.trace_id AND g.device = d.device
),

logged AS (
    SELECT
        s.*,
        stated.run AS stated_run,
        d.name AS device_name,
        CASE WHEN starts_with(s.gpu, 'GPU-') OR starts_with(s.gpu, 'MIG-') THEN s.gpu END AS uuid,
        CASE WHEN s.counts >= 3 THEN 'energy counter' WHEN s.powers >= 2 THEN 'power' END AS method,
        count(*) OVER (PARTITION BY s.trace_id, s.run_id, s.source) AS gpus
    FROM _power_series AS s
    LEFT JOIN stated ON s.run = stated.run
    LEFT JOIN (SELECT trace_id, device, min(name) AS name FROM devices GROUP BY trace_id, device) AS d
        ON s.trace_id = d.trace_id AND s.device = d.device
)

SELECT
    u.trace,
    u.device,
    l.log,
    l.source,
    l.device AS log_device,
    l.gpu,
    CASE
        WHEN l.trace_id = u.trace_id THEN 'own'
        WHEN lower(l.uuid) = lower(u.uuid) THEN 'uuid'
        WHEN l.device = u.device THEN 'device number'
        WHEN l.series IS NOT NULL THEN 'only GPU'
    END AS matched_by,
    l.method,
    l.samples,
    l.period_ns,
    l.counter_step_ns,
    CASE
        WHEN l.has_epoch THEN 100::DOUBLE * (least(u.to_ns, l.last_ns) - greatest(u.from_ns, l.first_ns)) / nullif(u.to_ns - u.from_ns, 0)
    END AS overlap_pct,
    CASE
        WHEN l.series IS NOT NULL AND l.method IS NULL THEN 'the samples have neither power nor energy'
        WHEN l.series IS NOT NULL THEN NULL
        WHEN u.clock = 'epoch' THEN 'no power samples of its time and GPU'
        ELSE 'its clock (' || coalesce(u.clock, 'unknown') || ') is not the wall clock, so no log can be aligned'
    END AS reason,
    CASE WHEN l.has_epoch THEN u.base_ns WHEN l.series IS NOT NULL THEN 0 END AS offset_ns,
    l.series
FROM used AS u
LEFT JOIN logged AS l
    ON CASE
        WHEN NOT l.has_epoch THEN l.trace_id = u.trace_id
        ELSE
            u.clock = 'epoch'
            AND l.first_ns <= coalesce(u.to_ns, l.first_ns) AND l.last_ns >= coalesce(u.from_ns, l.last_ns)
            AND (l.stated_run = u.stated_run) IS NOT FALSE
    END
    AND CASE
        WHEN l.trace_id = u.trace_id THEN l.device = u.device OR l.device IS NULL OR u.device IS NULL
        WHEN u.uuid IS NOT NULL AND l.uuid IS NOT NULL THEN lower(l.uuid) = lower(u.uuid)
        WHEN lower(l.device_name) <> lower(u.device_name) THEN false
        ELSE l.device IS NOT DISTINCT FROM u.device OR (l.gpus = 1 AND u.gpus = 1)
    END;
