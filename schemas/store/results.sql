-- What was learned of traces after they were read: notes, results of replays, inferred calls. It is copied between databases whether
-- or not the traces are new there. `used_signatures` (store/lake.sql) names what the traces launch. Each statement lists what goes over; the
-- ones behind it carry that out. A second time lists nothing.

-- name: held
-- Whether the source holds anything of the kind, before the target is asked for what it has.
SELECT
    EXISTS (FROM source.main.annotations)
    OR EXISTS (FROM source.main.replay_runs)
    OR EXISTS (FROM source.main.inferred_calls);

-- name: list_notes
-- Of two notes of one author on one fact, the later one stands.
CREATE OR REPLACE TEMP TABLE moved_notes AS
SELECT part.*
FROM source.main.annotations AS part
WHERE
    part.signature_id IN (SELECT signature_id FROM used_signatures)
    AND NOT EXISTS (
        SELECT 1
        FROM annotations AS present
        WHERE
            present.signature_id = part.signature_id
            AND present.key = part.key
            AND present.author IS NOT DISTINCT FROM part.author
            AND coalesce(present.noted_at, TIMESTAMP '1970-01-01') >= coalesce(part.noted_at, TIMESTAMP '1970-01-01')
    );

-- name: list_concerned
-- The items of replays that measured signatures of the traces, or tried to.
CREATE OR REPLACE TEMP TABLE concerned_items AS
SELECT run_id, item_id
FROM source.main.replays
WHERE
    signature_id IN (SELECT signature_id FROM used_signatures)
    OR inferred_id IN (SELECT signature_id FROM used_signatures)
UNION
SELECT run_id, item_id
FROM source.main.replay_calls
WHERE
    call_id IN (SELECT call_id FROM source.main.signatures WHERE signature_id IN (SELECT signature_id FROM used_signatures));

-- name: list_items
-- Those of them that go over. One that is there already is replaced where the source got further with it: it succeeded where the other
-- failed, or has energy where the other has none.
CREATE OR REPLACE TEMP TABLE moved_items AS
WITH offered AS (
    SELECT
        run_id,
        item_id,
        coalesce(max(2 * (calls.status = 'ok')::INTEGER + (calls.energy_mj IS NOT NULL)::INTEGER), 0) AS progress
    FROM concerned_items
    LEFT JOIN source.main.replay_calls AS calls USING (run_id, item_id)
    GROUP BY run_id, item_id
),

present AS (
    SELECT run_id, item_id, max(progress) AS progress
    FROM (
        SELECT run_id, item_id, 0 AS progress
        FROM replays
        UNION ALL
        SELECT run_id, item_id, 2 * coalesce(status = 'ok', false)::INTEGER + (energy_mj IS NOT NULL)::INTEGER
        FROM replay_calls
    )
    GROUP BY run_id, item_id
)

SELECT offered.run_id, offered.item_id
FROM offered
LEFT JOIN present USING (run_id, item_id)
WHERE present.progress IS NULL OR present.progress < offered.progress;

-- name: list_runs
-- The runs of the items. One that is there already is replaced, with its series of power, where the source got further with it.
CREATE OR REPLACE TEMP TABLE moved_runs AS
WITH offered AS (
    SELECT
        runs.run_id,
        [coalesce(runs.finished, false)::BIGINT, (runs.launch_loop_power_w IS NOT NULL)::BIGINT, coalesce(series.n, 0)] AS progress
    FROM source.main.replay_runs AS runs
    LEFT JOIN (SELECT run_id, count(*) AS n FROM source.main.power_samples WHERE source = 'replay' GROUP BY run_id) AS series USING (run_id)
    WHERE runs.run_id IN (SELECT run_id FROM concerned_items)
),

present AS (
    SELECT
        runs.run_id,
        [coalesce(runs.finished, false)::BIGINT, (runs.launch_loop_power_w IS NOT NULL)::BIGINT, coalesce(series.n, 0)] AS progress
    FROM replay_runs AS runs
    LEFT JOIN (SELECT run_id, count(*) AS n FROM power_samples WHERE source = 'replay' GROUP BY run_id) AS series USING (run_id)
)

SELECT offered.run_id
FROM offered
LEFT JOIN present USING (run_id)
WHERE present.progress IS NULL OR present.progress < offered.progress;

-- name: list_finds
-- Calls found for launches of the traces; of two for one launch, the later one stands.
CREATE OR REPLACE TEMP TABLE moved_finds AS
SELECT part.*
FROM source.main.inferred_calls AS part
WHERE
    list_contains($trace_ids::VARCHAR[], part.trace_id)
    AND NOT EXISTS (
        SELECT 1
        FROM inferred_calls AS present
        WHERE
            present.trace_id = part.trace_id
            AND present.launch_index = part.launch_index
            AND coalesce(present.found_at, TIMESTAMP '1970-01-01') >= coalesce(part.found_at, TIMESTAMP '1970-01-01')
    );

-- name: listed
SELECT
    (SELECT count(*) FROM moved_notes) AS notes,
    (SELECT count(*) FROM moved_items) AS items,
    (SELECT count(*) FROM moved_runs) AS runs,
    (SELECT count(*) FROM moved_finds) AS finds;

-- name: notes
DELETE FROM annotations
WHERE EXISTS (
    SELECT 1
    FROM moved_notes AS moved
    WHERE
        moved.signature_id = annotations.signature_id
        AND moved.key = annotations.key
        AND moved.author IS NOT DISTINCT FROM annotations.author
);
INSERT INTO annotations BY NAME SELECT * FROM moved_notes;

-- name: items
DELETE FROM replay_calls WHERE (run_id, item_id) IN (SELECT (run_id, item_id) FROM moved_items);
DELETE FROM replay_attempts WHERE (run_id, item_id) IN (SELECT (run_id, item_id) FROM moved_items);
DELETE FROM replays WHERE (run_id, item_id) IN (SELECT (run_id, item_id) FROM moved_items);
INSERT INTO replay_calls BY NAME SELECT * FROM source.main.replay_calls WHERE (run_id, item_id) IN (SELECT (run_id, item_id) FROM moved_items);
INSERT INTO replay_attempts BY NAME SELECT * FROM source.main.replay_attempts WHERE (run_id, item_id) IN (SELECT (run_id, item_id) FROM moved_items);
INSERT INTO replays BY NAME SELECT * FROM source.main.replays WHERE (run_id, item_id) IN (SELECT (run_id, item_id) FROM moved_items);
INSERT INTO replay_routes BY NAME
SELECT *
FROM source.main.replay_routes
WHERE
    route IN (SELECT route FROM replay_calls WHERE (run_id, item_id) IN (SELECT (run_id, item_id) FROM moved_items))
    AND route NOT IN (SELECT route FROM replay_routes);

-- name: runs
DELETE FROM replay_runs WHERE run_id IN (SELECT run_id FROM moved_runs);
DELETE FROM power_samples WHERE source = 'replay' AND run_id IN (SELECT run_id FROM moved_runs);
DELETE FROM step_kernels WHERE run_id IN (SELECT run_id FROM moved_runs);
DELETE FROM step_replays WHERE run_id IN (SELECT run_id FROM moved_runs);
INSERT INTO replay_runs BY NAME SELECT * FROM source.main.replay_runs WHERE run_id IN (SELECT run_id FROM moved_runs);
INSERT INTO step_replays BY NAME SELECT * FROM source.main.step_replays WHERE run_id IN (SELECT run_id FROM moved_runs);
INSERT INTO step_kernels BY NAME SELECT * FROM source.main.step_kernels WHERE run_id IN (SELECT run_id FROM moved_runs);
INSERT INTO power_samples BY NAME
SELECT * FROM source.main.power_samples WHERE source = 'replay' AND run_id IN (SELECT run_id FROM moved_runs);

-- name: finds
DELETE FROM inferred_calls WHERE (trace_id, launch_index) IN (SELECT (trace_id, launch_index) FROM moved_finds);
INSERT INTO inferred_calls BY NAME SELECT * FROM moved_finds;

-- name: found_traces
SELECT DISTINCT trace_id FROM moved_finds ORDER BY trace_id;
