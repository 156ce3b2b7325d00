-- Operator calls that were inferred for launches recorded without one. `found_rows` holds the new ones.

-- name: forget
-- Launches that get a new one lose the old one; with $renew, all that no replay found goes. What names only the operator takes no call
-- that a replay found.
DELETE FROM inferred_calls
WHERE
    trace_id = $trace_id
    AND (
        ($renew AND run_id IS NULL)
        OR launch_index IN (SELECT f.launch_index FROM found_rows AS f WHERE f.trace_id = $trace_id AND f.call_kernels IS NOT NULL)
    );

-- name: calls
INSERT INTO op_calls BY NAME
SELECT DISTINCT ON (call_id) *
FROM found_rows AS part
WHERE NOT EXISTS (SELECT 1 FROM op_calls AS present WHERE present.call_id = part.call_id);

-- name: signatures
INSERT INTO signatures BY NAME
SELECT DISTINCT ON (signature_id) *
FROM found_rows AS part
WHERE NOT EXISTS (SELECT 1 FROM signatures AS present WHERE present.signature_id = part.signature_id);

-- name: names
SELECT * FROM kernel_names WHERE name_id IN (SELECT name_id FROM found_rows);

-- name: inferred_calls
INSERT INTO inferred_calls BY NAME
SELECT *, now() AT TIME ZONE 'UTC' AS found_at
FROM found_rows AS part
WHERE
    NOT EXISTS (
        SELECT 1 FROM inferred_calls AS present WHERE present.trace_id = part.trace_id AND present.launch_index = part.launch_index
    );

-- name: unmark
UPDATE launches SET inferred_id = NULL, inferred_by = NULL WHERE trace_id = $trace_id AND inferred_id IS NOT NULL;

-- name: mark
UPDATE launches SET inferred_id = f.inferred_id, inferred_by = f.inferred_by
FROM inferred_calls AS f
WHERE f.trace_id = $trace_id AND launches.trace_id = $trace_id AND launches.launch_index = f.launch_index;

-- name: forget_rollups
DELETE FROM rollups WHERE trace_id = $trace_id AND origin = 'launches';
