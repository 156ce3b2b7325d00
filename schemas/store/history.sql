-- What the history of a program keeps of each run, and the changes that were found in it.

-- name: pending
-- Traces with a commit that the history does not have yet.
SELECT
    c.trace_id,
    c.trace,
    c.label,
    c.tags,
    c.commit,
    c.branch,
    c.commit_time,
    t.rank,
    t.host,
    t.framework_version,
    t.tool_version,
    t.metadata,
    t.ingested_at,
    CASE WHEN t.clock = 'epoch' THEN make_timestamp(t.base_ns // 1000) END AS recorded_at,
    d.device_name
FROM trace_commits AS c
INNER JOIN traces AS t USING (trace_id)
LEFT JOIN (
    SELECT trace_id, string_agg(DISTINCT name, ', ' ORDER BY name) AS device_name FROM devices GROUP BY trace_id
) AS d USING (trace_id)
WHERE c.commit IS NOT NULL AND c.trace_id NOT IN (SELECT trace_id FROM history_runs)
ORDER BY c.trace;

-- name: units
SELECT
    count(DISTINCT iteration) FILTER (steady_state) AS iterations,
    count(*) AS launches
FROM kernels
WHERE trace_id = $trace_id AND timing = 'timeline';

-- name: add_run
INSERT INTO history_runs BY NAME
SELECT
    $trace_id AS trace_id,
    $series_id AS series_id,
    $workload AS workload,
    $branch AS branch,
    $device_name AS device_name,
    $rank AS rank,
    $commit AS commit,
    $happened_at AS happened_at,
    $recorded_at AS recorded_at,
    $environment AS environment,
    $units AS units;

-- name: roll_up
INSERT INTO history_rollups BY NAME
WITH chosen AS (
    FROM kernels WHERE trace_id = $trace_id AND timing = 'timeline' AND (steady_state OR NOT $steady)
),

timed AS MATERIALIZED (
    SELECT kind, short_name, op, module, count(duration_ns) AS n, sum(duration_ns)::DOUBLE AS total_ns
    FROM chosen
    WHERE duration_ns IS NOT NULL
    GROUP BY ALL
),

summed AS (
    SELECT 'kernel' AS subject, short_name AS name, sum(n) AS n, sum(total_ns) AS total_ns, sum(total_ns) / sum(n) AS value
    FROM timed
    WHERE kind = 'kernel' AND short_name IS NOT NULL
    GROUP BY short_name
    UNION ALL
    SELECT 'operator', op, sum(n), sum(total_ns), sum(total_ns) / $units FROM timed WHERE op IS NOT NULL GROUP BY op
    UNION ALL
    SELECT 'module', module, sum(n), sum(total_ns), sum(total_ns) / $units FROM timed WHERE module IS NOT NULL GROUP BY module
    UNION ALL
    SELECT 'total', 'GPU time', sum(n), sum(total_ns), sum(total_ns) / $units FROM timed HAVING sum(n) > 0
    UNION ALL
    SELECT 'budget', part || ': ' || cause, sum(n), sum(wall_ns), sum(wall_ns) / $units
    FROM wall_time_budget('chosen')
    GROUP BY part, cause
)

SELECT $trace_id AS trace_id, subject, name, n::BIGINT AS n, try_cast(total_ns AS BIGINT) AS total_ns, value::DOUBLE AS value
FROM summed
WHERE value > 0 AND name IS NOT NULL
ORDER BY subject, name;

-- name: roll_up_energy
INSERT INTO history_rollups BY NAME
SELECT $trace_id AS trace_id, 'energy' AS subject, 'whole trace' AS name, NULL::BIGINT AS n, sum(energy_mj) AS value
FROM window_power()
WHERE trace = $trace AND kind = 'trace' AND energy_mj > 0
HAVING count(*) > 0
UNION ALL
SELECT
    $trace_id,
    CASE WHEN quantity = 'energy_mj' THEN 'energy' ELSE 'measured' END,
    concat_ws(' ', workload, mode, quantity),
    max(n),
    avg(value)
FROM measurements
WHERE trace_id = $trace_id AND value > 0 AND quantity IN ('energy_mj', 'wall_ns')
GROUP BY quantity, workload, mode;

-- name: due
-- Series that hold a run which the search has not seen.
SELECT DISTINCT series_id
FROM history_runs
WHERE scanned IS DISTINCT FROM $version
ORDER BY series_id;

-- name: runs
SELECT r.trace_id, r.commit, r.environment, r.happened_at, r.recorded_at, r.scanned
FROM history_runs AS r
WHERE r.series_id = $series_id
ORDER BY r.happened_at, r.recorded_at, r.trace_id;

-- name: points
-- The values of some runs, in the order of the runs.
SELECT p.place, h.subject, h.name, h.value, h.n / r.units AS n
FROM (SELECT unnest($trace_ids) AS trace_id, unnest(range(len($trace_ids))) AS place) AS p
INNER JOIN history_runs AS r USING (trace_id)
INNER JOIN history_rollups AS h USING (trace_id)
ORDER BY h.subject, h.name, p.place;

-- name: forget_changes
DELETE FROM history_changes WHERE series_id = $series_id AND list_contains($trace_ids, trace_id);

-- name: add_changes
INSERT INTO history_changes BY NAME
SELECT
    unnest($trace_id) AS trace_id,
    unnest($before_trace_id) AS before_trace_id,
    unnest($subject) AS subject,
    unnest($name) AS name,
    unnest($first_commit) AS first_commit,
    unnest($last_commit) AS last_commit,
    unnest($before_value) AS before_value,
    unnest($after_value) AS after_value,
    unnest($change_pct) AS change_pct,
    unnest($low_pct) AS low_pct,
    unnest($high_pct) AS high_pct,
    unnest($impact_ns) AS impact_ns,
    unnest($p_value) AS p_value,
    unnest($runs_before) AS runs_before,
    unnest($runs_after) AS runs_after,
    unnest($noise_pct) AS noise_pct,
    unnest($cause) AS cause,
    unnest($detail) AS detail,
    unnest($series_id) AS series_id;

-- name: mark_scanned
UPDATE history_runs SET scanned = $version WHERE series_id = $series_id;

-- name: forget_run
DELETE FROM history_changes WHERE trace_id = $trace_id;
DELETE FROM history_rollups WHERE trace_id = $trace_id;
DELETE FROM history_runs WHERE trace_id = $trace_id;
