-- The balance of measured and predicted: what it is made of, and where its rows go.

-- name: held
-- Whether there is anything to balance, or to take away.
SELECT EXISTS (SELECT 1 FROM measurements) OR EXISTS (SELECT 1 FROM reconciliation);

-- name: concerns
-- Whether the traces $trace_ids are of a run that was measured, or have a balance; or a trace that has one is gone, or has another name.
WITH changed AS (
    SELECT run FROM traces WHERE list_contains($trace_ids::VARCHAR[], trace_id)
),

measured AS (
    SELECT DISTINCT m.trace_id, coalesce(m.run, t.run) AS run, t.run AS of_trace FROM measurements AS m LEFT JOIN traces AS t USING (trace_id)
)

SELECT
    EXISTS (
        SELECT 1
        FROM measured
        WHERE
            list_contains($trace_ids::VARCHAR[], trace_id)
            OR run IN (SELECT run FROM changed WHERE run IS NOT NULL)
            OR of_trace IN (SELECT run FROM changed WHERE run IS NOT NULL)
    )
    OR EXISTS (
        SELECT 1
        FROM reconciliation
        WHERE
            trace NOT IN (SELECT name FROM traces)
            OR trace IN (SELECT name FROM traces WHERE list_contains($trace_ids::VARCHAR[], trace_id))
    );

-- name: list_workloads
CREATE OR REPLACE TEMP TABLE reconciliation_workloads AS
SELECT
    s.*,
    t.trace_id IS NOT NULL AS has_trace,
    t.run AS trace_run,
    t.job,
    t.rank,
    t.world_size,
    o.world_size AS launches_world_size
FROM _reconciliation_workloads AS s
LEFT JOIN traces AS t ON s.trace_id = t.trace_id
LEFT JOIN traces AS o ON s.launches_trace_id = o.trace_id;

-- name: workloads
FROM reconciliation_workloads ORDER BY ALL;

-- name: runs_of
-- The runs of the traces $trace_ids: those that they are in, and those that they, or traces that are gone, were balanced with.
SELECT run FROM traces WHERE list_contains($trace_ids::VARCHAR[], trace_id) AND run IS NOT NULL
UNION
SELECT run
FROM reconciliation
WHERE
    run IS NOT NULL
    AND (
        trace NOT IN (SELECT name FROM traces)
        OR trace IN (SELECT name FROM traces WHERE list_contains($trace_ids::VARCHAR[], trace_id))
    );

-- name: keep_workloads
DELETE FROM reconciliation_workloads WHERE NOT list_contains($traces::VARCHAR[], trace);

-- name: list_launches
CREATE OR REPLACE TEMP TABLE reconciliation_launches AS
FROM _reconciliation_launches('_kernels', 'reconciliation_workloads');

-- name: list_selected
CREATE OR REPLACE TEMP TABLE reconciliation_selected AS
FROM _reconciliation_launches('selection', 'reconciliation_workloads');

-- name: sums
FROM _reconciliation_sums('reconciliation_launches');

-- name: flows
FROM _reconciliation_flows('reconciliation_launches');

-- name: sums_selected
FROM _reconciliation_sums('reconciliation_selected');

-- name: flows_selected
FROM _reconciliation_flows('reconciliation_selected');

-- name: replays
FROM _reconciliation_replays WHERE list_contains($signatures::VARCHAR[], signature_id);

-- name: replays_in_steps
-- What a signature takes in replayed steps of its trace, run as it was recorded, where all its launches came out as the same kernel: the latest run.
WITH placed AS (
    SELECT
        k.signature_id,
        u.gpu,
        u.run_id,
        any_value(u.started) AS started,
        max(k.grade) AS grade,
        sum(k.replay_ns) / sum(k.launches) AS mean_ns,
        sum(k.high_ns - k.low_ns) / 2 / sum(k.launches) AS half_ns,
        r.recorded_trace AS step_trace_id
    FROM step_kernels AS k
    INNER JOIN step_replays AS r ON k.run_id = r.run_id AND k.step_id = r.step_id AND k.mode = r.mode AND k.mode = r.recorded_as
    INNER JOIN replay_runs AS u ON k.run_id = u.run_id
    WHERE list_contains($signatures::VARCHAR[], k.signature_id)
    GROUP BY k.signature_id, u.gpu, u.run_id, r.recorded_trace
    HAVING bool_and(k.grade IN ('L0', 'L1') AND k.replay_ns IS NOT NULL)
)

SELECT
    signature_id,
    gpu,
    run_id,
    grade,
    'step' AS route,
    'in context' AS cache,
    mean_ns,
    half_ns,
    NULL::DOUBLE AS clock_mhz,
    NULL::VARCHAR AS reason,
    NULL::VARCHAR AS energy_run_id,
    NULL::DOUBLE AS dynamic_mj,
    NULL::DOUBLE AS above_half_mj,
    NULL::DOUBLE AS energy_mhz,
    NULL::DOUBLE AS capped_mhz,
    NULL::DOUBLE AS capped_stretch,
    NULL::DOUBLE AS capped_energy,
    'energy is not measured in steps' AS energy_reason,
    step_trace_id
FROM placed
QUALIFY row_number() OVER (PARTITION BY signature_id, gpu, step_trace_id ORDER BY started DESC, run_id) = 1;

-- name: runs
SELECT run_id, uuid, launch_loop_power_w, launch_loop_power_error_w, context_power_w, energy_drift
FROM replay_runs
WHERE list_contains($run_ids::VARCHAR[], run_id);

-- name: forget
DROP TABLE IF EXISTS temp.reconciliation_workloads;
DROP TABLE IF EXISTS temp.reconciliation_launches;
DROP TABLE IF EXISTS temp.reconciliation_selected;

-- name: clear_workloads
-- The rows of the traces $traces, and those of what is none of $present.
DELETE FROM reconciliation WHERE list_contains($traces::VARCHAR[], trace) OR NOT list_contains($present::VARCHAR[], trace);
DELETE FROM reconciliation_components WHERE list_contains($traces::VARCHAR[], trace) OR NOT list_contains($present::VARCHAR[], trace);
DELETE FROM reconciliation_kernels WHERE list_contains($traces::VARCHAR[], trace) OR NOT list_contains($present::VARCHAR[], trace);

-- name: clear_jobs
-- The rows of the jobs $jobs, and those of what is none of $present.
DELETE FROM reconciliation_jobs WHERE list_contains($jobs::VARCHAR[], job) OR NOT list_contains($present::VARCHAR[], job);

-- name: drop
DROP TABLE IF EXISTS reconciliation;
DROP TABLE IF EXISTS reconciliation_components;
DROP TABLE IF EXISTS reconciliation_kernels;
DROP TABLE IF EXISTS reconciliation_jobs;

-- name: columns
FROM reconciliation LIMIT 0;

-- name: reconciliation
INSERT INTO reconciliation BY NAME SELECT * FROM reconciliation_rows;

-- name: reconciliation_components
INSERT INTO reconciliation_components BY NAME SELECT * FROM reconciliation_rows;

-- name: reconciliation_kernels
INSERT INTO reconciliation_kernels BY NAME SELECT * FROM reconciliation_rows;

-- name: reconciliation_jobs
INSERT INTO reconciliation_jobs BY NAME SELECT * FROM reconciliation_rows;
