-- Which traces belong together, and which of their launches are the same: evidence when a trace comes, links between traces, then marks.

-- name: adopt
-- Of databases up to version 6: runs that are not called like the folder of their files, or a file in it, were stated by a user or a recording.
UPDATE traces SET stated_run = run, stated_job = job
WHERE
    job IS NOT NULL
    OR trace_id IN (SELECT trace_id FROM trace_files WHERE role = 'recording')
    OR (
        run IS NOT NULL
        AND NOT EXISTS (
            SELECT 1
            FROM trace_files AS f
            WHERE
                f.trace_id = traces.trace_id
                AND (
                    run = regexp_extract(f.path, '([^/\\]+)[/\\][^/\\]+$', 1)
                    OR starts_with(run, regexp_extract(f.path, '([^/\\]+)[/\\][^/\\]+$', 1) || '/')
                    OR run = regexp_extract(f.path, '([^/\\]+)[/\\]pass_\d+[/\\][^/\\]+$', 1)
                    -- Read from inside its folder, which the path does not name then.
                    OR (NOT regexp_matches(f.path, '[/\\]') AND contains(run, '/') AND starts_with(f.path, split_part(run, '/', -1)))
                )
        )
    );

-- name: sample
-- A few launches of the trace, by which another print of it is found. Any few do.
INSERT INTO trace_evidence BY NAME
SELECT trace_id, 'launch' AS kind, kind AS key, start_ns AS first_ns, duration_ns AS last_ns
FROM launches
WHERE trace_id = $trace_id AND start_ns IS NOT NULL AND duration_ns IS NOT NULL
ORDER BY hash(start_ns, duration_ns), launch_index
LIMIT 16;

-- name: sums
-- What was launched in all, kernels and copies apart, by each report of the trace. Names without template arguments, which prints
-- cut, and without the NVTX range that prints may put before them (`range/name`).
-- `last_ns` orders the reports: launches, then sums per launch configuration, then per name.
INSERT INTO trace_evidence BY NAME
SELECT
    trace_id,
    'sums' AS kind,
    key,
    md5(string_agg(DISTINCT base, '|' ORDER BY base)) AS detail,
    sum(n)::BIGINT AS n,
    try_cast(sum(total_ns) AS BIGINT) AS first_ns,
    any_value(place) AS last_ns,
    min(min_ns) AS min_ns,
    max(max_ns) AS max_ns
FROM (
    SELECT
        r.trace_id,
        CASE s.kind WHEN 'kernel' THEN 'kernel' ELSE 'copy' END AS key,
        CASE s.kind
            WHEN 'kernel' THEN regexp_extract(regexp_replace(coalesce(k.short_name, k.name), '^.*/', ''), '^[^<(\[ ]*')
            ELSE concat_ws(' ', s.kind, s.copy_kind)
        END AS base,
        r.n,
        r.total_ns,
        r.min_ns,
        r.max_ns,
        CASE r.origin WHEN 'launches' THEN 0 WHEN 'report_grid' THEN 1 ELSE 2 END AS place
    FROM rollups AS r
    INNER JOIN traces AS t ON r.trace_id = t.trace_id AND t.source <> 'pytorch'
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS k USING (name_id)
    WHERE r.trace_id = $trace_id AND r.timing = 'timeline' AND r.origin <> 'report_phase'
)
GROUP BY trace_id, key, place;

-- name: passes
-- rocprofv3 runs a program once for each set of counters, and puts the passes into folders pass_1, pass_2, … of one folder.
INSERT INTO trace_evidence BY NAME
SELECT
    f.trace_id,
    'pass' AS kind,
    regexp_extract(f.path, '^(.*)[/\\]pass_\d+[/\\][^/\\]*$', 1) AS key,
    (
        SELECT md5(string_agg(concat_ws(' ', signature_id, n), '|' ORDER BY signature_id))
        FROM (
            SELECT r.signature_id, sum(r.n) AS n
            FROM rollups AS r
            INNER JOIN signatures AS s ON r.signature_id = s.signature_id AND s.kind = 'kernel'
            WHERE r.trace_id = $trace_id AND r.origin = 'launches'
            GROUP BY r.signature_id
        )
    ) AS detail
FROM trace_files AS f
WHERE f.trace_id = $trace_id AND regexp_matches(f.path, '[/\\]pass_\d+[/\\][^/\\]*$')
LIMIT 1;

-- name: groups
INSERT INTO trace_evidence BY NAME
SELECT DISTINCT p.trace_id, 'group' AS kind, p.group_name AS key, p.ranks AS detail
FROM process_groups AS p
INNER JOIN traces AS t ON p.trace_id = t.trace_id AND t.rank IS NOT NULL
WHERE p.trace_id = $trace_id AND p.ranks IS NOT NULL;

-- name: collectives
-- The collectives of each process group: how often which three follow each other (profiles may begin at different steps), and the whole order
-- as one hash, with the ends of the first and the last on the clock of the host. Sizes are left out where they differ between ranks.
INSERT INTO trace_evidence BY NAME
WITH named AS (
    SELECT
        l.*,
        '' AS trace,
        '' AS run,
        t.rank,
        t.base_ns,
        k.name,
        k.category
    FROM launches AS l
    INNER JOIN traces AS t ON l.trace_id = t.trace_id AND t.rank IS NOT NULL
    INNER JOIN signatures AS s ON l.signature_id = s.signature_id
    INNER JOIN kernel_names AS k ON s.name_id = k.name_id AND k.category = 'COMMUNICATION'
    WHERE l.trace_id = $trace_id AND l.start_ns IS NOT NULL
),

items AS (
    SELECT
        coalesce(group_ranks, group_name, '') AS key,
        concat_ws(
            ' ', operation, dtype,
            CASE WHEN operation LIKE 'alltoall%' OR operation IN ('gather', 'scatter', 'reduce') THEN NULL ELSE bytes END
        ) AS item,
        start_ns,
        end_ns,
        launch_index
    FROM collective_launches('named')
    WHERE operation IS NULL OR operation NOT IN ('send', 'recv', 'sendrecv')
),

based AS (
    SELECT coalesce(max(base_ns), 0) AS base_ns FROM traces WHERE trace_id = $trace_id
)

SELECT
    $trace_id AS trace_id,
    'collective' AS kind,
    key,
    detail,
    count(*) AS n,
    NULL::BIGINT AS first_ns,
    NULL::BIGINT AS last_ns
FROM (
    SELECT key, concat_ws(', ', item, lead(item) OVER following, lead(item, 2) OVER following) AS detail
    FROM items
    WINDOW following AS (PARTITION BY key ORDER BY start_ns, launch_index)
    QUALIFY lead(launch_index, 2) OVER following IS NOT NULL OR count(*) OVER (PARTITION BY key) < 3
)
GROUP BY key, detail
UNION ALL
SELECT
    $trace_id,
    'sequence',
    key,
    md5(string_agg(item, ',' ORDER BY start_ns, launch_index)),
    count(*),
    try_cast(min(end_ns)::HUGEINT + any_value(base_ns) AS BIGINT),
    try_cast(max(end_ns)::HUGEINT + any_value(base_ns) AS BIGINT)
FROM items
CROSS JOIN based
GROUP BY key;

-- name: facts
SELECT
    trace_id, name, source, era, kind, clock, base_ns, rank, world_size, launches, launches_start_ns, launches_end_ns,
    window_start_ns, window_end_ns, default_phase, stated_run, stated_job, run, job, primary_timing, repeats
FROM traces
ORDER BY trace_id;

-- name: links
SELECT trace_id, other_id, relation, method, score, evidence, apart_ns FROM trace_links;

-- name: link
INSERT INTO trace_links BY NAME
SELECT
    unnest($trace_id::VARCHAR[]) AS trace_id,
    unnest($other_id::VARCHAR[]) AS other_id,
    unnest($relation::VARCHAR[]) AS relation,
    unnest($method::VARCHAR[]) AS method,
    unnest($score::DOUBLE[]) AS score,
    unnest($evidence::VARCHAR[]) AS evidence,
    unnest($apart_ns::BIGINT[]) AS apart_ns;

-- name: relate
UPDATE trace_links SET relation = $relation WHERE trace_id = $trace_id AND other_id = $other_id AND relation <> 'print';

-- name: sampled_elsewhere
-- Of the traces $others, those that hold a sampled launch of $trace_id, or of which it holds one.
SELECT DISTINCT l.trace_id
FROM launches AS l
INNER JOIN trace_evidence AS e
    ON
        e.trace_id = $trace_id
        AND e.kind = 'launch'
        AND l.start_ns = e.first_ns
        AND l.duration_ns = e.last_ns
        AND l.kind = e.key
WHERE l.trace_id IN (SELECT unnest($others::VARCHAR[]))
UNION
SELECT DISTINCT e.trace_id
FROM trace_evidence AS e
INNER JOIN launches AS l
    ON
        l.trace_id = $trace_id
        AND l.start_ns = e.first_ns
        AND l.duration_ns = e.last_ns
        AND l.kind = e.key
WHERE e.kind = 'launch' AND e.trace_id IN (SELECT unnest($others::VARCHAR[]));

-- name: shared_launches
-- How many launches two traces have in common, of how many, and whether names agree up to template arguments.
WITH placed AS (
    SELECT DISTINCT
        l.trace_id,
        l.kind,
        l.start_ns,
        l.duration_ns,
        regexp_extract(coalesce(k.short_name, k.name), '^[^<(\[ ]*') AS base
    FROM launches AS l
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS k USING (name_id)
    WHERE l.trace_id IN ($trace_id, $other_id) AND l.start_ns IS NOT NULL AND l.duration_ns IS NOT NULL
)

SELECT
    (
        SELECT count(*)
        FROM placed AS a
        INNER JOIN placed AS b USING (kind, start_ns, duration_ns)
        WHERE a.trace_id = $trace_id AND b.trace_id = $other_id
    ) AS shared,
    (
        SELECT count(*)
        FROM placed AS a
        INNER JOIN placed AS b USING (kind, start_ns, duration_ns)
        WHERE a.trace_id = $trace_id AND b.trace_id = $other_id AND (a.base = b.base OR a.kind <> 'kernel')
    ) AS named,
    (SELECT count(*) FROM placed WHERE trace_id = $trace_id) AS own,
    (SELECT count(*) FROM placed WHERE trace_id = $other_id) AS others;

-- name: equal_sums
-- Other traces with as many kernels or copies of the same total time. To the nanosecond: of the same names, or many with the
-- same shortest and longest one. Where a print has few digits, many of the same names. A print without times tells by many of the same kinds.
SELECT
    b.trace_id,
    list_sort(list(DISTINCT a.key)) AS equal,
    max(a.n) AS n,
    max(a.first_ns) AS total_ns,
    (
        SELECT list_sort(list(DISTINCT x.key))
        FROM trace_evidence AS x
        INNER JOIN trace_evidence AS y ON y.trace_id = b.trace_id AND y.kind = 'sums' AND x.key = y.key
        WHERE x.trace_id = $trace_id AND x.kind = 'sums'
    ) AS common
FROM trace_evidence AS a
INNER JOIN trace_evidence AS b ON a.kind = b.kind AND a.key = b.key AND a.n = b.n AND a.trace_id <> b.trace_id
WHERE
    a.trace_id = $trace_id
    AND a.kind = 'sums'
    AND CASE
        WHEN a.first_ns IS NULL OR b.first_ns IS NULL THEN a.detail = b.detail AND a.n >= 10
        WHEN a.first_ns = b.first_ns
            THEN a.first_ns > 0 AND a.n > 1 AND (a.detail = b.detail OR (a.n >= 100 AND a.min_ns = b.min_ns AND a.max_ns = b.max_ns))
        ELSE a.detail = b.detail AND a.n >= 20 AND abs(a.first_ns - b.first_ns) <= 1e-5 * a.first_ns
    END
GROUP BY b.trace_id;

-- name: same_passes
SELECT b.trace_id
FROM trace_evidence AS a
INNER JOIN trace_evidence AS b ON a.kind = b.kind AND a.key = b.key AND a.detail = b.detail AND a.trace_id <> b.trace_id
WHERE a.trace_id = $trace_id AND a.kind = 'pass';

-- name: profiled_pairs
-- Launches of Nsight Compute with the same process and launch id in two traces, and how many of their metrics agree within the printed digits.
WITH profiled AS (
    SELECT l.trace_id, l.launch_index, l.process, l.correlation_id, s.grid_x, s.grid_y, s.grid_z, s.block_x, s.block_y, s.block_z, s.name_id
    FROM launches AS l
    INNER JOIN traces AS t ON l.trace_id = t.trace_id AND t.source = 'ncu'
    INNER JOIN signatures AS s USING (signature_id)
    WHERE l.timing = 'profiled' AND l.start_ns IS NULL AND l.correlation_id IS NOT NULL
),

pairs AS (
    SELECT a.launch_index, b.trace_id AS other_id, b.launch_index AS other_index, a.name_id = b.name_id AS named, try_cast(a.process AS BIGINT) AS process
    FROM profiled AS a
    INNER JOIN profiled AS b
        ON
            a.correlation_id = b.correlation_id
            AND a.process IS NOT DISTINCT FROM b.process
            AND coalesce(a.grid_x = b.grid_x AND a.grid_y = b.grid_y AND a.grid_z = b.grid_z, true)
            AND coalesce(a.block_x = b.block_x AND a.block_y = b.block_y AND a.block_z = b.block_z, true)
    WHERE a.trace_id = $trace_id AND b.trace_id <> $trace_id
),

compared AS (
    SELECT
        p.other_id,
        p.launch_index,
        a.metric,
        -- Of several sections that print a metric, those that agree best.
        bool_or(abs(a.value - b.value) <= (coalesce(a.precision, 0) + coalesce(b.precision, 0)) * (1 + 1e-9) + 1e-9 * abs(a.value)) AS agrees
    FROM pairs AS p
    INNER JOIN metrics AS a ON a.trace_id = $trace_id AND a.launch_index = p.launch_index
    INNER JOIN metrics AS b
        ON b.trace_id = p.other_id AND b.launch_index = p.other_index AND a.metric = b.metric AND a.instance IS NOT DISTINCT FROM b.instance
    WHERE a.value IS NOT NULL AND b.value IS NOT NULL
    GROUP BY p.other_id, p.launch_index, a.metric
)

SELECT
    p.other_id,
    count(*) AS pairs,
    bool_and(p.named) AS named,
    min(p.process) AS process,
    coalesce(any_value(c.durations), 0) AS durations,
    coalesce(any_value(c.equal_durations), 0) AS equal_durations,
    coalesce(any_value(c.metrics), 0) AS metrics,
    coalesce(any_value(c.equal_metrics), 0) AS equal_metrics
FROM pairs AS p
LEFT JOIN (
    SELECT
        other_id,
        count(*) FILTER (metric = 'gpu__time_duration.sum') AS durations,
        count(*) FILTER (metric = 'gpu__time_duration.sum' AND agrees) AS equal_durations,
        count(*) AS metrics,
        count(*) FILTER (agrees) AS equal_metrics
    FROM compared
    GROUP BY other_id
) AS c ON p.other_id = c.other_id
GROUP BY p.other_id;

-- name: ranks
-- Evidence of the traces $trace_ids about the job they ran in.
SELECT trace_id, kind, key, detail, n, first_ns, last_ns
FROM trace_evidence
WHERE kind IN ('group', 'collective', 'sequence') AND list_contains($trace_ids::VARCHAR[], trace_id);

-- name: models
-- The GPUs that each of the traces $trace_ids ran on, as far as they are known.
SELECT d.trace_id, list_sort(list(DISTINCT d.name)) AS models
FROM devices AS d
WHERE d.name IS NOT NULL AND list_contains($trace_ids::VARCHAR[], d.trace_id)
GROUP BY d.trace_id;

-- name: order
-- Traces that hold the same work, best first: PyTorch (it knows the operators), then with durations, more launches, host calls, more exact
-- durations, more metrics, longer names (some prints cut them).
SELECT t.trace_id
FROM traces AS t
LEFT JOIN (
    SELECT r.trace_id, sum(r.timed)::BIGINT AS timed, sum(length(k.name)) AS letters
    FROM rollups AS r
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS k USING (name_id)
    WHERE list_contains($trace_ids::VARCHAR[], r.trace_id)
    GROUP BY r.trace_id
) AS sums USING (trace_id)
LEFT JOIN (
    SELECT DISTINCT trace_id FROM api_calls WHERE list_contains($trace_ids::VARCHAR[], trace_id)
) AS calls USING (trace_id)
LEFT JOIN (
    SELECT trace_id, count(*) AS n, max(precision) FILTER (metric = 'gpu__time_duration.sum') AS coarseness
    FROM metrics
    WHERE list_contains($trace_ids::VARCHAR[], trace_id)
    GROUP BY trace_id
) AS measured USING (trace_id)
WHERE list_contains($trace_ids::VARCHAR[], t.trace_id)
ORDER BY
    t.source <> 'pytorch',
    coalesce(sums.timed, 0) = 0,
    t.launches DESC,
    calls.trace_id IS NULL,
    coalesce(measured.coarseness, 0),
    coalesce(measured.n, 0) DESC,
    sums.letters DESC,
    t.trace_id;

-- name: timings
-- Those of $trace_ids that hold timed launches, by their timing.
SELECT timing, list(DISTINCT trace_id) FROM rollups WHERE origin = 'launches' AND timed > 0 AND list_contains($trace_ids::VARCHAR[], trace_id) GROUP BY timing;

-- name: set_runs
UPDATE traces SET run = changed.run, job = changed.job, primary_timing = changed.primary_timing
FROM (
    SELECT
        unnest($trace_id::VARCHAR[]) AS trace_id,
        unnest($run::VARCHAR[]) AS run,
        unnest($job::VARCHAR[]) AS job,
        unnest($primary_timing::VARCHAR[]) AS primary_timing
) AS changed
WHERE traces.trace_id = changed.trace_id;

-- name: set_repeats
UPDATE traces SET repeats = $repeats WHERE trace_id = $trace_id;

-- name: unmark
UPDATE launches SET is_repeat = NULL WHERE trace_id = $trace_id AND is_repeat;
DELETE FROM launch_prints WHERE trace_id = $trace_id;

-- name: mark_all
UPDATE launches SET is_repeat = true WHERE trace_id = $trace_id;

-- name: mark_placed
-- Launches that a better print ($better) holds, too: the same start and duration, which both may lack (refused as absurd, say).
UPDATE launches SET is_repeat = true
FROM (
    SELECT DISTINCT w.launch_index
    FROM launches AS w
    INNER JOIN launches AS b ON w.kind = b.kind AND w.start_ns = b.start_ns AND w.duration_ns IS NOT DISTINCT FROM b.duration_ns
    WHERE w.trace_id = $trace_id AND b.trace_id IN (SELECT unnest($better::VARCHAR[])) AND b.is_repeat IS NOT TRUE
) AS found
WHERE launches.trace_id = $trace_id AND launches.launch_index = found.launch_index;

-- name: pair_placed
INSERT INTO launch_prints BY NAME
SELECT
    w.trace_id,
    w.launch_index,
    min_by(b.trace_id, (b.trace_id, b.launch_index)) AS primary_trace_id,
    min_by(b.launch_index, (b.trace_id, b.launch_index)) AS primary_launch_index
FROM launches AS w
INNER JOIN launches AS b ON w.kind = b.kind AND w.start_ns = b.start_ns AND w.duration_ns IS NOT DISTINCT FROM b.duration_ns
WHERE
    w.trace_id = $trace_id
    AND w.timing = 'profiled'
    AND b.trace_id IN (SELECT unnest($better::VARCHAR[]))
    AND b.is_repeat IS NOT TRUE
GROUP BY w.trace_id, w.launch_index;

-- name: pair_profiled
-- Launches of Nsight Compute by process and launch id.
INSERT INTO launch_prints BY NAME
SELECT
    w.trace_id,
    w.launch_index,
    min_by(b.trace_id, (b.trace_id, b.launch_index)) AS primary_trace_id,
    min_by(b.launch_index, (b.trace_id, b.launch_index)) AS primary_launch_index
FROM launches AS w
INNER JOIN launches AS b ON w.correlation_id = b.correlation_id AND w.process IS NOT DISTINCT FROM b.process AND w.kind = b.kind
WHERE
    w.trace_id = $trace_id
    AND w.start_ns IS NULL
    AND b.start_ns IS NULL
    AND b.trace_id IN (SELECT unnest($better::VARCHAR[]))
    AND b.is_repeat IS NOT TRUE
GROUP BY w.trace_id, w.launch_index;

-- name: pair_passes
-- The n-th launch of a signature in one pass is the n-th in the others.
INSERT INTO launch_prints BY NAME
WITH numbered AS (
    SELECT
        trace_id,
        launch_index,
        signature_id,
        is_repeat,
        row_number() OVER (PARTITION BY trace_id, signature_id ORDER BY start_ns, launch_index) AS place
    FROM launches
    WHERE kind = 'kernel' AND (trace_id = $trace_id OR trace_id IN (SELECT unnest($better::VARCHAR[])))
)

SELECT
    w.trace_id,
    w.launch_index,
    min_by(b.trace_id, (b.trace_id, b.launch_index)) AS primary_trace_id,
    min_by(b.launch_index, (b.trace_id, b.launch_index)) AS primary_launch_index
FROM numbered AS w
INNER JOIN numbered AS b ON w.signature_id = b.signature_id AND w.place = b.place
WHERE w.trace_id = $trace_id AND b.trace_id <> $trace_id AND b.is_repeat IS NOT TRUE
GROUP BY w.trace_id, w.launch_index;

-- name: mark_paired
UPDATE launches SET is_repeat = true
WHERE trace_id = $trace_id AND launch_index IN (SELECT launch_index FROM launch_prints WHERE trace_id = $trace_id);

-- name: forget_rollups
DELETE FROM rollups WHERE trace_id = $trace_id AND origin = 'launches';

-- name: mark_reports
-- Sums that a tool printed count where nothing better tells of the same work: launches, then sums per launch configuration, then per name.
-- Sums per phase never do: ranges nest, and a kernel stands under each. Kernels and copies are judged apart, for most reports hold one of
-- them. Equal sums are one report, printed twice.
UPDATE rollups SET is_repeat = judged.is_repeat
FROM (
    WITH groups AS (
        SELECT
            t.run,
            s.kind = 'kernel' AS of_kernels,
            r.trace_id,
            r.origin,
            r.timing,
            CASE r.origin WHEN 'launches' THEN 0 WHEN 'report_grid' THEN 1 WHEN 'report' THEN 2 ELSE 3 END AS distance,
            sum(r.n)::BIGINT AS n,
            try_cast(sum(r.total_ns) AS BIGINT) AS total_ns,
            sum(length(k.name)) AS letters
        FROM rollups AS r
        INNER JOIN traces AS t USING (trace_id)
        INNER JOIN signatures AS s USING (signature_id)
        INNER JOIN kernel_names AS k USING (name_id)
        WHERE list_contains($trace_ids::VARCHAR[], r.trace_id)
        GROUP BY ALL
    )

    SELECT
        trace_id,
        origin,
        timing,
        of_kernels,
        CASE
            WHEN
                origin = 'report_phase'
                OR distance > min(distance) OVER (PARTITION BY run, of_kernels, timing)
                OR row_number() OVER (
                    PARTITION BY run, of_kernels, timing, distance, n, total_ns ORDER BY letters DESC, trace_id
                ) > 1
                THEN true
        END AS is_repeat
    FROM groups
) AS judged
WHERE
    judged.origin <> 'launches'
    AND rollups.trace_id = judged.trace_id
    AND rollups.origin = judged.origin
    AND rollups.timing = judged.timing
    AND judged.of_kernels = (rollups.signature_id IN (SELECT signature_id FROM signatures WHERE kind = 'kernel'))
    AND rollups.is_repeat IS DISTINCT FROM judged.is_repeat;

-- name: mark_traces
-- Whether anything of a trace counts. One without GPU work repeats nothing.
UPDATE traces SET is_primary = judged.is_primary
FROM (
    SELECT
        t.trace_id,
        coalesce(
            bool_or(
                r.is_repeat IS NOT TRUE AND (r.timing = t.primary_timing OR (r.origin <> 'launches' AND r.timing <> 'profiled'))
            ),
            true
        ) AS is_primary
    FROM traces AS t
    LEFT JOIN rollups AS r ON t.trace_id = r.trace_id
    WHERE list_contains($trace_ids::VARCHAR[], t.trace_id)
    GROUP BY t.trace_id
) AS judged
WHERE traces.trace_id = judged.trace_id AND traces.is_primary IS DISTINCT FROM judged.is_primary;
