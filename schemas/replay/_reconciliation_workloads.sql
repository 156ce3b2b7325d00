-- The measured workloads, and the trace that the kernels of each are taken from: its own, or, where CUDA graphs hide the operators of more than half of
-- them, that of the same workload and run recorded without graphs. Where several recordings have the name of the run, that is the one of the same rank
-- and board that was measured next to it. `launches_trace_id` is the trace whose launches count: its own, if it has any.
CREATE OR REPLACE VIEW _reconciliation_workloads AS
WITH measured AS MATERIALIZED (
    FROM _reconciliation_measured
),

-- Launches of a trace whose operator is not known, and the phases that there are.
recorded AS (
    SELECT
        r.trace_id,
        sum(r.n) FILTER (s.kind = 'kernel' AND s.call_id IS NULL) / nullif(sum(r.n) FILTER (s.kind = 'kernel'), 0) AS hidden,
        list(DISTINCT coalesce(r.phase, t.default_phase)) AS phases
    FROM rollups AS r
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN traces AS t USING (trace_id)
    WHERE r.timing = 'timeline' AND r.origin = 'launches' AND r.trace_id IN (SELECT trace_id FROM measurements)
    GROUP BY r.trace_id
),

eager AS (
    SELECT m.trace_id, m.run, m.workload, e.trace_id AS eager_id
    FROM measured AS m
    INNER JOIN measured AS e ON m.run = e.run AND m.workload = e.workload
    LEFT JOIN traces AS t ON m.trace_id = t.trace_id
    LEFT JOIN traces AS o ON e.trace_id = o.trace_id
    WHERE m.mode = 'cuda_graph' AND e.mode = 'eager' AND e.trace_id IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY m.trace_id, m.run, m.workload
        ORDER BY
            t.rank IS DISTINCT FROM o.rank, m.board IS DISTINCT FROM e.board,
            abs(epoch(m.measured_at) - epoch(e.measured_at)) NULLS LAST, e.trace_id
    ) = 1
),

chosen AS (
    SELECT
        m.* EXCLUDE (measured_at),
        CASE
            WHEN m.mode = 'cuda_graph' AND (coalesce(own.hidden, 1) > 0.5) AND e.eager_id IS NOT NULL THEN e.eager_id ELSE m.trace_id
        END AS kernels_trace_id,
        CASE WHEN own.trace_id IS NULL THEN kernels_trace_id ELSE m.trace_id END AS launches_trace_id
    FROM measured AS m
    LEFT JOIN recorded AS own ON m.trace_id = own.trace_id
    LEFT JOIN eager AS e ON m.trace_id IS NOT DISTINCT FROM e.trace_id AND m.run = e.run AND m.workload = e.workload
),

referred AS (
    SELECT *
    FROM replay_runs
    QUALIFY row_number() OVER (PARTITION BY gpu ORDER BY launch_loop_power_w IS NULL, gap_ns IS NULL, started DESC, run_id) = 1
)

SELECT
    coalesce(t.name, k.name) AS trace,
    c.run,
    c.model,
    c.board,
    c.workload,
    c.mode,
    d.gpu,
    k.name AS kernels_trace,
    list_contains(r.phases, c.workload) IS TRUE AS by_phase,
    list_contains(own.phases, c.workload) IS TRUE AS own_by_phase,
    c.wall_ns,
    c.wall_low_ns,
    c.wall_high_ns,
    c.wall_method,
    c.energy_mj,
    c.energy_low_mj,
    c.energy_high_mj,
    c.energy_method,
    c.energy_reason,
    c.busy_ns,
    c.launches,
    c.sm_mhz,
    u.run_id AS gap_run_id,
    u.gap_ns,
    coalesce(u.launch_loop_power_w, c.launch_loop_power_w) AS launch_loop_power_w,
    coalesce(CASE WHEN u.launch_loop_power_w IS NOT NULL THEN u.launch_loop_power_error_w ELSE c.launch_loop_power_error_w END, 0) AS launch_loop_power_error_w,
    coalesce(CASE WHEN u.launch_loop_power_w IS NOT NULL THEN u.context_power_w END, c.context_power_w) AS context_power_w,
    c.trace_id,
    c.kernels_trace_id,
    c.launches_trace_id
FROM chosen AS c
LEFT JOIN traces AS t ON c.trace_id = t.trace_id
LEFT JOIN traces AS k ON c.kernels_trace_id = k.trace_id
LEFT JOIN recorded AS r ON c.kernels_trace_id = r.trace_id
LEFT JOIN recorded AS own ON c.trace_id = own.trace_id
LEFT JOIN (SELECT trace_id, arg_min(name, (device, name)) AS gpu FROM devices GROUP BY trace_id) AS d ON c.kernels_trace_id = d.trace_id
LEFT JOIN referred AS u ON d.gpu = u.gpu
WHERE coalesce(t.name, k.name) IS NOT NULL;
