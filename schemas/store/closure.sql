-- The balance of measured and predicted: what it is made of, and where its rows go.

-- name: held
-- Whether there is anything to balance, or to take away.
SELECT EXISTS (SELECT 1 FROM measurements) OR EXISTS (SELECT 1 FROM closure);

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
        FROM closure
        WHERE
            trace NOT IN (SELECT name FROM traces)
            OR trace IN (SELECT name FROM traces WHERE list_contains($trace_ids::VARCHAR[], trace_id))
    );

-- name: list_stages
CREATE OR REPLACE TEMP TABLE closure_stages AS
SELECT
    s.*,
    t.trace_id IS NOT NULL AS has_trace,
    t.run AS trace_run,
    t.job,
    t.rank,
    t.world_size,
    o.world_size AS launches_world_size
FROM _closure_stages AS s
LEFT JOIN traces AS t ON s.trace_id = t.trace_id
LEFT JOIN traces AS o ON s.launches_trace_id = o.trace_id;

-- name: stages
FROM closure_stages ORDER BY ALL;

-- name: runs_of
-- The runs of the traces $trace_ids: those that they are in, and those that they, or traces that are gone, were balanced with.
SELECT run FROM traces WHERE list_contains($trace_ids::VARCHAR[], trace_id) AND run IS NOT NULL
UNION
SELECT run
FROM closure
WHERE
    run IS NOT NULL
    AND (
        trace NOT IN (SELECT name FROM traces)
        OR trace IN (SELECT name FROM traces WHERE list_contains($trace_ids::VARCHAR[], trace_id))
    );

-- name: keep_stages
DELETE FROM closure_stages WHERE NOT list_contains($traces::VARCHAR[], trace);

-- name: list_launches
CREATE OR REPLACE TEMP TABLE closure_launches AS
FROM _closure_launches('_kernels', 'closure_stages');

-- name: list_selected
CREATE OR REPLACE TEMP TABLE closure_selected AS
FROM _closure_launches('selection', 'closure_stages');

-- name: sums
FROM _closure_sums('closure_launches');

-- name: flows
FROM _closure_flows('closure_launches');

-- name: sums_selected
FROM _closure_sums('closure_selected');

-- name: flows_selected
FROM _closure_flows('closure_selected');

-- name: replays
FROM _closure_replays WHERE list_contains($signatures::VARCHAR[], signature_id);

-- name: runs
SELECT run_id, uuid, gap_power_w, gap_power_error_w, context_power_w, energy_drift
FROM replay_runs
WHERE list_contains($run_ids::VARCHAR[], run_id);

-- name: forget
DROP TABLE IF EXISTS temp.closure_stages;
DROP TABLE IF EXISTS temp.closure_launches;
DROP TABLE IF EXISTS temp.closure_selected;

-- name: clear_stages
-- The rows of the traces $traces, and those of what is none of $present.
DELETE FROM closure WHERE list_contains($traces::VARCHAR[], trace) OR NOT list_contains($present::VARCHAR[], trace);
DELETE FROM closure_terms WHERE list_contains($traces::VARCHAR[], trace) OR NOT list_contains($present::VARCHAR[], trace);
DELETE FROM closure_kernels WHERE list_contains($traces::VARCHAR[], trace) OR NOT list_contains($present::VARCHAR[], trace);

-- name: clear_jobs
-- The rows of the jobs $jobs, and those of what is none of $present.
DELETE FROM closure_jobs WHERE list_contains($jobs::VARCHAR[], job) OR NOT list_contains($present::VARCHAR[], job);

-- name: drop
DROP TABLE IF EXISTS closure;
DROP TABLE IF EXISTS closure_terms;
DROP TABLE IF EXISTS closure_kernels;
DROP TABLE IF EXISTS closure_jobs;

-- name: columns
FROM closure LIMIT 0;

-- name: closure
INSERT INTO closure BY NAME SELECT * FROM closure_rows;

-- name: closure_terms
INSERT INTO closure_terms BY NAME SELECT * FROM closure_rows;

-- name: closure_kernels
INSERT INTO closure_kernels BY NAME SELECT * FROM closure_rows;

-- name: closure_jobs
INSERT INTO closure_jobs BY NAME SELECT * FROM closure_rows;
