-- The series of power samples: one GPU in one log, recording or replay. `period_ns` is the median time between changes of the reading (what the meter
-- resolves, however often it is asked), `counter_step_ns` the same of the energy counter. A log in whole seconds has several readings of one moment,
-- ordered by value.
CREATE OR REPLACE VIEW _power_series AS
WITH stepped AS (
    SELECT
        trace_id,
        run_id,
        source,
        device,
        gpu,
        coalesce(epoch_ns, ts_ns) AS t_ns,
        epoch_ns IS NOT NULL AS has_epoch,
        power_w,
        energy_mj,
        lag(coalesce(epoch_ns, ts_ns)) OVER in_time AS before_ns,
        lag(power_w) OVER in_time AS before_w,
        lag(energy_mj) OVER in_time AS before_mj
    FROM power_samples
    WINDOW in_time AS (PARTITION BY trace_id, run_id, source, device, gpu ORDER BY coalesce(epoch_ns, ts_ns), energy_mj, power_w)
),

changed AS (
    SELECT
        *,
        t_ns - before_ns AS step_ns,
        max(CASE WHEN power_w IS DISTINCT FROM before_w THEN t_ns END) OVER earlier AS power_before_ns,
        max(CASE WHEN energy_mj IS DISTINCT FROM before_mj THEN t_ns END) OVER earlier AS energy_before_ns
    FROM stepped
    WINDOW earlier AS (
        PARTITION BY trace_id, run_id, source, device, gpu
        ORDER BY t_ns, energy_mj, power_w
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)

SELECT
    concat_ws('/', c.trace_id, c.run_id, c.source, c.device, c.gpu) AS series,
    t.name AS log,
    c.source,
    c.device,
    c.gpu,
    any_value(t.run) AS run,
    count(*) AS samples,
    count(c.power_w) AS powers,
    count(DISTINCT c.energy_mj) AS counts,
    bool_and(c.has_epoch) AS has_epoch,
    min(c.t_ns) AS first_ns,
    max(c.t_ns) AS last_ns,
    greatest(
        median(c.step_ns) FILTER (c.step_ns > 0),
        median(c.t_ns - c.power_before_ns) FILTER (c.power_w <> c.before_w AND c.t_ns > c.power_before_ns)
    )::BIGINT AS period_ns,
    (median(c.t_ns - c.energy_before_ns) FILTER (c.energy_mj > c.before_mj AND c.t_ns > c.energy_before_ns))::BIGINT AS counter_step_ns,
    (median(c.step_ns) FILTER (c.step_ns > 0))::BIGINT AS sample_step_ns,
    c.trace_id,
    c.run_id
FROM changed AS c
LEFT JOIN traces AS t ON c.trace_id = t.trace_id
GROUP BY t.name, c.source, c.device, c.gpu, c.trace_id, c.run_id;
