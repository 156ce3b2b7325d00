-- One block per table. Dimension rows are shared by traces, so only missing ones are added; everything else is written whole, in the
-- order of time where there is one: zone maps then find the rows of a trace and a window without an index. The parts of long traces are
-- in that order, give or take; sorting them again would take as long as writing them.

-- name: kernel_names
INSERT INTO kernel_names BY NAME
SELECT DISTINCT ON (name_id) *
FROM read_parquet($files, union_by_name = true) AS part
WHERE NOT EXISTS (SELECT 1 FROM kernel_names AS present WHERE present.name_id = part.name_id);

-- name: op_calls
INSERT INTO op_calls BY NAME
SELECT DISTINCT ON (call_id) *
FROM read_parquet($files, union_by_name = true) AS part
WHERE NOT EXISTS (SELECT 1 FROM op_calls AS present WHERE present.call_id = part.call_id);

-- name: signatures
INSERT INTO signatures BY NAME
SELECT DISTINCT ON (signature_id) *
FROM read_parquet($files, union_by_name = true) AS part
WHERE NOT EXISTS (SELECT 1 FROM signatures AS present WHERE present.signature_id = part.signature_id);

-- name: launches
INSERT INTO launches BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: launches_untimed
-- Launches under a counter profiler have no start.
INSERT INTO launches BY NAME
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY launch_index;

-- name: launches_in_order
INSERT INTO launches BY NAME
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY start_ns, launch_index;

-- name: traces
INSERT INTO traces BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: trace_files
INSERT INTO trace_files BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: ingest_reports
INSERT INTO ingest_reports BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: devices
INSERT INTO devices BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: process_groups
INSERT INTO process_groups BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: rollups
INSERT INTO rollups BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: ops
INSERT INTO ops BY NAME
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY start_ns, op_id;

-- name: api_calls
INSERT INTO api_calls BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: ranges
INSERT INTO ranges BY NAME
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY start_ns, range_id;

-- name: op_tensors
INSERT INTO op_tensors BY NAME
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY op_id;

-- name: ops_as_written
INSERT INTO ops BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: ranges_as_written
INSERT INTO ranges BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: memory_events
INSERT INTO memory_events BY NAME
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY ts_ns, event_index;

-- name: sync_events
INSERT INTO sync_events BY NAME
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY start_ns, sync_index;

-- name: cpu_samples
INSERT INTO cpu_samples BY NAME
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY ts_ns, sample_index;

-- name: call_sums
INSERT INTO call_sums BY NAME
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY kind, total_ns DESC, name;

-- name: samples
INSERT INTO samples BY NAME
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY ts_ns;

-- name: metrics
INSERT INTO metrics BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: source_counters
INSERT INTO source_counters BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: kernel_symbols
INSERT INTO kernel_symbols BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: kernel_sources
INSERT INTO kernel_sources BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: power_samples
INSERT INTO power_samples BY NAME
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY epoch_ns, ts_ns;

-- name: measurements
INSERT INTO measurements BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: present
SELECT name FROM traces WHERE trace_id = $trace_id;

-- name: names
SELECT name FROM traces WHERE trace_id <> $trace_id AND starts_with(name, $name);

-- name: previous
SELECT name, stated_run, label, default_phase FROM traces WHERE trace_id = $trace_id;

-- name: finish_trace
UPDATE traces
SET
    name = $name,
    stated_run = coalesce(stated_run, $run),
    label = coalesce(label, $label),
    default_phase = coalesce(default_phase, $default_phase),
    launches = (SELECT count(*) FROM launches WHERE launches.trace_id = $trace_id),
    ingested_at = now() AT TIME ZONE 'UTC'
WHERE trace_id = $trace_id;

-- name: has_steps
SELECT
    EXISTS (FROM ranges WHERE trace_id = $trace_id AND name LIKE 'ProfilerStep#%' AND device IS NULL)
    OR EXISTS (FROM ops WHERE trace_id = $trace_id AND name LIKE 'ProfilerStep#%');

-- name: mark_steps
-- Iterations are marked once, so that a condition on `steady_state` costs a column and no window. Here by the steps of the profiler.
UPDATE launches SET iteration = found.iteration, steady_state = found.steady_state
FROM (
    WITH timed AS (
        SELECT '' AS trace, trace_id, device, kind, launch_index, launch_start_ns, start_ns, end_ns, duration_ns
        FROM launches
        WHERE trace_id = $trace_id AND timing = 'timeline' AND start_ns IS NOT NULL
    ),

    found_steps AS (FROM _launch_steps('timed'))

    FROM _step_launches('found_steps')
) AS found
WHERE launches.trace_id = $trace_id AND launches.launch_index = found.launch_index;

-- name: unmarked
-- The launches of a short trace, in which repeats are found without a statement.
SELECT l.device, l.kind, s.name_id, l.launch_index, l.start_ns, l.end_ns, l.duration_ns, l.iteration
FROM launches AS l
LEFT JOIN signatures AS s USING (signature_id)
WHERE l.trace_id = $trace_id AND l.timing = 'timeline' AND l.start_ns IS NOT NULL
ORDER BY l.start_ns, l.launch_index;

-- name: mark
UPDATE launches SET iteration = found.iteration, steady_state = found.steady_state
FROM (
    SELECT
        unnest($launch_index::BIGINT[]) AS launch_index,
        unnest($iteration::INTEGER[]) AS iteration,
        unnest($steady_state::BOOLEAN[]) AS steady_state
) AS found
WHERE launches.trace_id = $trace_id AND launches.launch_index = found.launch_index;

-- name: may_repeat
-- Whether a device without steps ran several kernels of one name.
SELECT count(*) > 0
FROM (
    SELECT coalesce(l.device, -1) AS place
    FROM launches AS l
    LEFT JOIN signatures AS s USING (signature_id)
    WHERE l.trace_id = $trace_id AND l.timing = 'timeline' AND l.start_ns IS NOT NULL
    GROUP BY place
    HAVING count(l.iteration) = 0 AND count(*) FILTER (l.kind = 'kernel') > count(DISTINCT s.name_id) FILTER (l.kind = 'kernel')
);

-- name: mark_repeats
-- By the kernels of each device that has no steps.
UPDATE launches SET iteration = found.iteration, steady_state = found.steady_state
FROM (
    WITH timed AS (
        SELECT '' AS trace, l.device, l.kind, s.name_id, l.launch_index, l.start_ns, l.end_ns, l.duration_ns
        FROM launches AS l
        LEFT JOIN signatures AS s USING (signature_id)
        WHERE
            l.trace_id = $trace_id
            AND l.timing = 'timeline'
            AND l.start_ns IS NOT NULL
            AND coalesce(l.device, -1) NOT IN (
                SELECT coalesce(device, -1) FROM launches WHERE trace_id = $trace_id AND iteration IS NOT NULL
            )
    )

    FROM _period_launches('timed')
) AS found
WHERE launches.trace_id = $trace_id AND launches.launch_index = found.launch_index;

-- name: span
-- When the launches of a timeline ran. A bin is a power of two, so that bins of several traces fit into each other. No bins where sums of
-- times might not fit into 64 bits: a launch or two with a damaged clock stretch a trace over decades.
UPDATE traces
SET
    launches_start_ns = found.first_ns,
    launches_end_ns = found.last_ns,
    bin_ns = CASE
        WHEN found.n > $fewest_binned AND found.n::DOUBLE * (found.last_ns::DOUBLE - found.first_ns) < 9e18
            THEN pow(2, ceil(log2(greatest(found.last_ns - found.first_ns, $bins) / $bins)))::BIGINT
    END
FROM (
    SELECT count(*) AS n, min(start_ns) AS first_ns, max(end_ns) AS last_ns
    FROM launches
    WHERE trace_id = $trace_id AND timing = 'timeline' AND start_ns IS NOT NULL AND end_ns IS NOT NULL
) AS found
WHERE traces.trace_id = $trace_id;

-- name: has_bins
SELECT bin_ns IS NOT NULL FROM traces WHERE trace_id = $trace_id;

-- name: bin_up
INSERT INTO timeline_bins BY NAME
SELECT
    l.trace_id,
    l.process,
    l.device,
    l.stream,
    l.queue,
    s.category,
    (l.start_ns - t.launches_start_ns) // t.bin_ns AS first_bin,
    (l.end_ns - t.launches_start_ns - 1) // t.bin_ns AS last_bin,
    count(*) AS n,
    try_cast(sum(l.start_ns - t.launches_start_ns) AS BIGINT) AS begins_ns,
    try_cast(sum(l.end_ns - t.launches_start_ns) AS BIGINT) AS ends_ns
FROM launches AS l
INNER JOIN traces AS t ON l.trace_id = t.trace_id AND t.bin_ns IS NOT NULL
LEFT JOIN signatures AS s USING (signature_id)
WHERE l.trace_id = $trace_id AND l.timing = 'timeline' AND l.start_ns IS NOT NULL AND l.end_ns IS NOT NULL
GROUP BY ALL
ORDER BY first_bin, device, stream, category;

-- name: forget_bins
DELETE FROM timeline_bins WHERE trace_id = $trace_id;

-- name: roll_up
INSERT INTO rollups BY NAME
SELECT
    trace_id,
    'launches' AS origin,
    device,
    stream,
    signature_id,
    phase,
    timing,
    is_repeat,
    inferred_id,
    inferred_by,
    count(*) AS n,
    count(duration_ns) AS timed,
    try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
    min(duration_ns) AS min_ns,
    max(duration_ns) AS max_ns,
    sum(duration_ns::DOUBLE * duration_ns) AS sum_squares_ns2,
    median(duration_ns) AS median_ns,
    (histogram(floor(16 * log2(greatest(duration_ns, 1)))::SMALLINT) FILTER (duration_ns IS NOT NULL))::MAP(SMALLINT, BIGINT)
        AS histogram
FROM launches
WHERE trace_id = $trace_id
GROUP BY trace_id, device, stream, signature_id, phase, timing, is_repeat, inferred_id, inferred_by
ORDER BY signature_id, device, stream, phase;

-- name: linked
-- What the trace $trace_id was linked with, surest first.
SELECT t.name AS other, t.rank, l.relation, l.evidence, own.run, own.run = t.run AS joined
FROM (
    SELECT other_id, relation, method, evidence, score FROM trace_links WHERE trace_id = $trace_id
    UNION ALL
    SELECT trace_id, relation, method, evidence, score FROM trace_links WHERE other_id = $trace_id
) AS l
INNER JOIN traces AS t ON l.other_id = t.trace_id
CROSS JOIN (SELECT run FROM traces WHERE trace_id = $trace_id) AS own
ORDER BY l.relation, l.score DESC, t.name;
