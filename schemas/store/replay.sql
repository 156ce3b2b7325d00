-- One journal's results replace what was stored of the same run and items before.

-- name: forget_run
DELETE FROM replay_runs WHERE run_id = $run_id;

-- name: forget_routes
DELETE FROM replay_routes WHERE list_contains($names::VARCHAR[], route);

-- name: replay_routes
INSERT INTO replay_routes BY NAME SELECT * FROM replay_rows;

-- name: forget_power
DELETE FROM power_samples WHERE run_id = $run_id AND source = 'replay';

-- name: forget_calls
DELETE FROM replay_calls WHERE run_id = $run_id AND list_contains($items::VARCHAR[], item_id);

-- name: forget_replays
DELETE FROM replays WHERE run_id = $run_id AND list_contains($items::VARCHAR[], item_id);

-- name: forget_attempts
DELETE FROM replay_attempts WHERE run_id = $run_id AND list_contains($items::VARCHAR[], item_id);

-- name: forget_steps
DELETE FROM step_replays WHERE run_id = $run_id AND list_contains($steps::VARCHAR[], step_id);

-- name: forget_step_kernels
DELETE FROM step_kernels WHERE run_id = $run_id AND list_contains($steps::VARCHAR[], step_id);

-- name: step_replays
INSERT INTO step_replays BY NAME SELECT * FROM replay_rows;

-- name: step_kernels
INSERT INTO step_kernels BY NAME SELECT * FROM replay_rows;

-- name: replay_attempts
INSERT INTO replay_attempts BY NAME SELECT * FROM replay_rows;

-- name: replay_runs
INSERT INTO replay_runs BY NAME SELECT * FROM replay_rows;

-- name: replay_calls
INSERT INTO replay_calls BY NAME SELECT * FROM replay_rows;

-- name: replays
INSERT INTO replays BY NAME SELECT * FROM replay_rows;

-- name: power_samples
INSERT INTO power_samples BY NAME SELECT * FROM replay_rows;

-- name: forget_improvements
DELETE FROM improvements WHERE list_contains($traces::VARCHAR[], trace_id);

-- name: improvements
INSERT INTO improvements BY NAME SELECT * FROM replay_rows;
