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

-- name: launches_in_iterations
-- The iterations are found here once, so that a condition on `steady` costs a column and no window.
INSERT INTO launches BY NAME
WITH parts AS NOT MATERIALIZED (
    SELECT * FROM launches WHERE false
    UNION ALL BY NAME
    SELECT * FROM read_parquet($files, union_by_name = true)
),

named AS (
    SELECT
        '' AS trace,
        p.trace_id,
        p.device,
        p.kind,
        s.name_id,
        p.launch_index,
        p.launch_start_ns,
        p.start_ns,
        p.end_ns,
        p.duration_ns,
        p.timing
    FROM parts AS p
    LEFT JOIN signatures AS s ON p.signature_id = s.signature_id
)

SELECT parts.* EXCLUDE (iteration, steady), found.iteration, found.steady
FROM parts
LEFT JOIN iteration_launches('named') AS found USING (launch_index)
ORDER BY parts.start_ns, parts.launch_index;

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

-- name: bin_up
INSERT INTO timeline_bins BY NAME
SELECT
    l.trace_id,
    l.process,
    l.device,
    l.stream,
    l.queue,
    k.category,
    (l.start_ns - t.launches_start_ns) // t.bin_ns AS first_bin,
    (l.end_ns - t.launches_start_ns - 1) // t.bin_ns AS last_bin,
    count(*) AS n,
    sum(l.start_ns - t.launches_start_ns)::BIGINT AS begins_ns,
    sum(l.end_ns - t.launches_start_ns)::BIGINT AS ends_ns
FROM launches AS l
INNER JOIN traces AS t ON l.trace_id = t.trace_id AND t.bin_ns IS NOT NULL
LEFT JOIN signatures AS s USING (signature_id)
LEFT JOIN kernel_names AS k USING (name_id)
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
    found_id,
    found_by,
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
GROUP BY trace_id, device, stream, signature_id, phase, timing, found_id, found_by
ORDER BY signature_id, device, stream, phase;

-- name: count_traces
-- Of the traces of one run that hold the same launches, one counts. Another source is always the same work (as far as rank and phase
-- agree or are unknown); of one source, exports in another form are, and equal ones: as many kernels of the same total time. PyTorch
-- traces of a run are its stages. The better one: PyTorch (it knows the operators), then more launches, then host calls, then longer
-- names (some exports cut them).
UPDATE traces SET counted = judged.counted
FROM (
    WITH shared AS (
        SELECT trace_id
        FROM traces
        WHERE
            kind = 'timeline'
            AND launches > 0
            AND run IN (SELECT run FROM traces WHERE kind = 'timeline' AND launches > 0 GROUP BY run HAVING count(*) > 1)
    ),

    candidates AS (
        SELECT
            t.trace_id,
            t.run,
            t.source,
            t.rank,
            t.default_phase,
            t.era,
            sums.n,
            sums.total_ns,
            row_number() OVER (
                PARTITION BY t.run
                ORDER BY t.source <> 'pytorch', t.launches DESC, calls.trace_id IS NULL, sums.letters DESC, t.trace_id
            ) AS place
        FROM traces AS t
        LEFT JOIN (
            SELECT r.trace_id, sum(r.n)::BIGINT AS n, sum(r.total_ns)::BIGINT AS total_ns, sum(length(k.name)) AS letters
            FROM rollups AS r
            INNER JOIN signatures AS s USING (signature_id)
            INNER JOIN kernel_names AS k USING (name_id)
            WHERE
                r.trace_id IN (SELECT trace_id FROM shared)
                AND r.origin = 'launches'
                AND r.timing = 'timeline'
                AND s.kind = 'kernel'
            GROUP BY r.trace_id
        ) AS sums USING (trace_id)
        LEFT JOIN (
            SELECT DISTINCT trace_id FROM api_calls WHERE trace_id IN (SELECT trace_id FROM shared)
        ) AS calls USING (trace_id)
        WHERE t.trace_id IN (SELECT trace_id FROM shared)
    )

    SELECT
        t.trace_id,
        CASE WHEN better.trace_id IS NOT NULL THEN false END AS counted
    FROM traces AS t
    LEFT JOIN (
        SELECT DISTINCT worse.trace_id
        FROM candidates AS worse
        INNER JOIN candidates AS best ON worse.run = best.run AND best.place < worse.place
        WHERE
            (worse.rank = best.rank OR worse.rank IS NULL OR best.rank IS NULL)
            AND (worse.default_phase = best.default_phase OR worse.default_phase IS NULL OR best.default_phase IS NULL)
            AND (
                worse.source <> best.source
                OR (worse.source <> 'pytorch' AND worse.era IS DISTINCT FROM best.era)
                OR (worse.n = best.n AND worse.total_ns = best.total_ns)
            )
    ) AS better USING (trace_id)
    WHERE t.kind = 'timeline'
) AS judged
WHERE traces.trace_id = judged.trace_id AND traces.counted IS DISTINCT FROM judged.counted;

-- name: count_reports
-- Sums that a tool printed count where nothing better tells of the same work: launches, then sums per launch configuration, then per name.
-- Sums per phase never do: ranges nest, and a kernel stands under each. Kernels and copies are judged apart, for most reports hold one of
-- them. Equal sums are one report, printed twice.
UPDATE rollups SET counted = judged.counted
FROM (
    WITH reported AS (
        SELECT coalesce('run ' || run, trace_id) AS work
        FROM traces
        WHERE trace_id IN (SELECT trace_id FROM rollups WHERE origin <> 'launches')
    ),

    groups AS (
        SELECT
            coalesce('run ' || t.run, t.trace_id) AS work,
            s.kind = 'kernel' AS of_kernels,
            r.trace_id,
            r.origin,
            CASE r.origin WHEN 'launches' THEN 0 WHEN 'report_grid' THEN 1 WHEN 'report' THEN 2 ELSE 3 END AS distance,
            sum(r.n)::BIGINT AS n,
            sum(r.total_ns)::BIGINT AS total_ns,
            sum(length(k.name)) AS letters
        FROM rollups AS r
        INNER JOIN traces AS t USING (trace_id)
        INNER JOIN signatures AS s USING (signature_id)
        INNER JOIN kernel_names AS k USING (name_id)
        WHERE r.timing = 'timeline' AND coalesce('run ' || t.run, t.trace_id) IN (SELECT work FROM reported)
        GROUP BY ALL
    )

    SELECT
        trace_id,
        origin,
        of_kernels,
        CASE
            WHEN
                origin = 'report_phase'
                OR distance > min(distance) OVER (PARTITION BY work, of_kernels)
                OR row_number() OVER (PARTITION BY work, of_kernels, distance, n, total_ns ORDER BY letters DESC, trace_id) > 1
                THEN false
        END AS counted
    FROM groups
) AS judged
WHERE
    judged.origin <> 'launches'
    AND rollups.trace_id = judged.trace_id
    AND rollups.origin = judged.origin
    AND judged.of_kernels = (rollups.signature_id IN (SELECT signature_id FROM signatures WHERE kind = 'kernel'))
    AND rollups.counted IS DISTINCT FROM judged.counted;

-- name: count_prints
-- Pages of one report of Nsight Compute that were ingested one by one: in a run, equal processes and launch ids (metadata) and durations
-- that agree within the printed digits of every launch. Process ids alone recur in containers. The raw page counts, it has more digits.
UPDATE traces SET counted = judged.counted
FROM (
    WITH prints AS (
        SELECT
            trace_id,
            run,
            json_extract_string(metadata, '$.report') AS report,
            row_number() OVER (
                PARTITION BY run, json_extract_string(metadata, '$.report')
                ORDER BY starts_with(era, 'ncu csv details'), trace_id
            ) AS place
        FROM traces
        WHERE kind = 'profiled' AND source = 'ncu' AND run IS NOT NULL AND json_extract_string(metadata, '$.report') IS NOT NULL
    ),

    pairs AS (
        SELECT worse.trace_id, best.trace_id AS best_id
        FROM prints AS worse
        INNER JOIN prints AS best ON worse.run = best.run AND worse.report = best.report AND best.place < worse.place
    ),

    durations AS (
        SELECT trace_id, launch_index, value, coalesce(precision, 0) AS precision
        FROM metrics
        WHERE
            metric = 'gpu__time_duration.sum'
            AND instance IS NULL
            AND value IS NOT NULL
            AND (trace_id IN (SELECT trace_id FROM pairs) OR trace_id IN (SELECT best_id FROM pairs))
    ),

    repeated AS (
        SELECT p.trace_id
        FROM pairs AS p
        INNER JOIN durations AS a ON p.trace_id = a.trace_id
        INNER JOIN durations AS b ON p.best_id = b.trace_id AND a.launch_index = b.launch_index
        GROUP BY p.trace_id, p.best_id
        HAVING bool_and(abs(a.value - b.value) <= (a.precision + b.precision) * (1 + 1e-9))
    )

    SELECT trace_id, CASE WHEN trace_id IN (SELECT trace_id FROM repeated) THEN false END AS counted
    FROM traces
    WHERE kind = 'profiled'
) AS judged
WHERE traces.trace_id = judged.trace_id AND traces.counted IS DISTINCT FROM judged.counted;
