-- What was measured whole, one row per trace, workload and mode: figures of an iteration. Of several figures for one quantity, the latest stands; of
-- repetitions without a figure over all of them, the mean.
CREATE OR REPLACE VIEW _reconciliation_measured AS
WITH figures AS (
    SELECT
        m.trace_id,
        coalesce(m.run, t.run) AS run,
        m.workload,
        m.mode,
        m.quantity,
        min(m.model) AS model,
        min(m.uuid) AS board,
        max(m.measured_at) AS measured_at,
        coalesce(arg_max(m.value, (m.measured_at, m.value, m.low, m.high, m.method)) FILTER (m.repetition IS NULL), avg(m.value)) AS value,
        arg_max(m.low, (m.measured_at, m.value, m.low, m.high, m.method)) FILTER (m.repetition IS NULL) AS low,
        arg_max(m.high, (m.measured_at, m.value, m.low, m.high, m.method)) FILTER (m.repetition IS NULL) AS high,
        min(m.reason) AS reason,
        arg_max(m.method, (m.measured_at, m.value, m.low, m.high, m.method)) FILTER (m.repetition IS NULL) AS method
    FROM measurements AS m
    LEFT JOIN traces AS t USING (trace_id)
    GROUP BY m.trace_id, coalesce(m.run, t.run), m.workload, m.mode, m.quantity
)

SELECT
    trace_id,
    run,
    workload,
    mode,
    min(model) AS model,
    min(board) AS board,
    max(measured_at) AS measured_at,
    any_value(value) FILTER (quantity = 'wall_ns') AS wall_ns,
    any_value(low) FILTER (quantity = 'wall_ns') AS wall_low_ns,
    any_value(high) FILTER (quantity = 'wall_ns') AS wall_high_ns,
    any_value(method) FILTER (quantity = 'wall_ns') AS wall_method,
    any_value(value) FILTER (quantity = 'energy_mj') AS energy_mj,
    any_value(low) FILTER (quantity = 'energy_mj') AS energy_low_mj,
    any_value(high) FILTER (quantity = 'energy_mj') AS energy_high_mj,
    any_value(method) FILTER (quantity = 'energy_mj') AS energy_method,
    any_value(reason) FILTER (quantity = 'energy_mj') AS energy_reason,
    any_value(value) FILTER (quantity = 'busy_ns') AS busy_ns,
    any_value(value) FILTER (quantity = 'launches') AS launches,
    any_value(value) FILTER (quantity = 'sm_mhz') AS sm_mhz,
    any_value(value) FILTER (quantity = 'context_power_w') AS context_power_w,
    any_value(value) FILTER (quantity = 'launch_loop_power_w') AS launch_loop_power_w,
    any_value(high - low) FILTER (quantity = 'launch_loop_power_w') / 2 AS launch_loop_power_error_w
FROM figures
GROUP BY trace_id, run, workload, mode
HAVING count(*) FILTER (quantity IN ('wall_ns', 'energy_mj')) > 0;
