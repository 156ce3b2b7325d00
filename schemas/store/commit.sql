-- One block per table. Dimension rows are shared by traces, so only missing ones are added; everything else is written whole, in the
-- order of time where there is one: zone maps then find the rows of a trace and a window without an index.

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
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY start_ns, api_index;

-- name: ranges
INSERT INTO ranges BY NAME
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY start_ns, range_id;

-- name: memory_events
INSERT INTO memory_events BY NAME
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY ts_ns, event_index;

-- name: samples
INSERT INTO samples BY NAME
SELECT * FROM read_parquet($files, union_by_name = true) ORDER BY ts_ns;

-- name: metrics
INSERT INTO metrics BY NAME
SELECT * FROM read_parquet($files, union_by_name = true);

-- name: kernel_symbols
INSERT INTO kernel_symbols BY NAME
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
SELECT name FROM traces WHERE trace_id <> $trace_id;

-- name: previous
SELECT name, run, label, default_phase FROM traces WHERE trace_id = $trace_id;

-- name: finish_trace
UPDATE traces
SET
    name = $name,
    run = coalesce($run, run),
    label = coalesce(label, $label),
    default_phase = coalesce(default_phase, $default_phase),
    launches = (SELECT count(*) FROM launches WHERE launches.trace_id = $trace_id),
    ingested_at = now() AT TIME ZONE 'UTC'
WHERE trace_id = $trace_id;

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
    count(*) AS n,
    count(duration_ns) AS timed,
    sum(duration_ns)::BIGINT AS total_ns,
    min(duration_ns) AS min_ns,
    max(duration_ns) AS max_ns,
    sum(duration_ns::DOUBLE * duration_ns) AS sum_squares_ns2,
    median(duration_ns) AS median_ns,
    (histogram(floor(16 * log2(greatest(duration_ns, 1)))::SMALLINT) FILTER (duration_ns IS NOT NULL))::MAP(SMALLINT, BIGINT)
        AS histogram
FROM launches
WHERE trace_id = $trace_id
GROUP BY trace_id, device, stream, signature_id, phase, timing
ORDER BY signature_id, device, stream, phase;
