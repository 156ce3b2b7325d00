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

-- name: is_one
-- Whether the database holds no more than one trace, which nothing has to be looked for.
SELECT count(*) < 2 FROM (FROM traces LIMIT 2);

-- name: kind_of
SELECT source, rank FROM traces WHERE trace_id = $trace_id;

-- name: sample
-- A few launches of the trace, by which another print of it is found. Any few do.
INSERT INTO trace_evidence BY NAME
SELECT trace_id, 'launch' AS kind, kind AS key, start_ns AS first_ns, duration_ns AS last_ns
FROM launches
WHERE trace_id = $trace_id AND start_ns IS NOT NULL AND duration_ns IS NOT NULL
ORDER BY hash(start_ns, duration_ns), launch_index
LIMIT 16;

-- name: sums
-- What was launched in all, kernels and copies apart, by each report of the trace. Names without the NVTX range that prints may put before them
-- (`range/name`). `last_ns` orders the reports: launches, then sums per launch configuration, then per name. `tolerance_ns`: how far off the sum may
-- be for digits that were not printed.
INSERT INTO trace_evidence BY NAME
WITH called AS (
    SELECT
        r.trace_id,
        s.kind,
        s.copy_kind,
        CASE s.kind WHEN 'kernel' THEN 'kernel' ELSE 'copy' END AS key,
        CASE s.kind WHEN 'kernel' THEN regexp_replace(coalesce(k.short_name, k.name), '^.*/', '') END AS called,
        r.n,
        r.total_ns,
        r.min_ns,
        r.max_ns,
        CASE r.origin WHEN 'launches' THEN 0 WHEN 'report_grid' THEN 1 ELSE 2 END AS place,
        concat_ws(' ', key, place) AS report,
        CASE WHEN place = 0 THEN r.max_ns ELSE r.total_ns END AS printed_ns
    FROM rollups AS r
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS k USING (name_id)
    WHERE r.trace_id = $trace_id AND r.timing = 'timeline' AND r.origin <> 'report_phase'
),

based AS (
    FROM _base_names('called')
)

SELECT
    trace_id,
    'sums' AS kind,
    key,
    md5(string_agg(DISTINCT what, '|' ORDER BY what)) AS detail,
    sum(n)::BIGINT AS n,
    try_cast(sum(total_ns) AS BIGINT) AS first_ns,
    any_value(place) AS last_ns,
    min(min_ns) AS min_ns,
    max(max_ns) AS max_ns,
    try_cast(sum(rounded_ns * CASE WHEN place = 0 THEN n ELSE 1 END) AS BIGINT) AS tolerance_ns
FROM (
    SELECT *, coalesce(base, concat_ws(' ', kind, copy_kind)) AS what FROM _printed_digits('based')
)
GROUP BY trace_id, key, place;

-- name: files
SELECT path FROM trace_files WHERE trace_id = $trace_id ORDER BY path;

-- name: pass
-- rocprofv3 runs a program once for each set of counters, and puts the passes into folders pass_1, pass_2, … of one folder.
INSERT INTO trace_evidence BY NAME
SELECT
    $trace_id AS trace_id,
    'pass' AS kind,
    $folder AS key,
    md5(string_agg(concat_ws(' ', signature_id, n), '|' ORDER BY signature_id)) AS detail,
    $number AS n
FROM (
    SELECT r.signature_id, sum(r.n) AS n
    FROM rollups AS r
    INNER JOIN signatures AS s ON r.signature_id = s.signature_id AND s.kind = 'kernel'
    WHERE r.trace_id = $trace_id AND r.origin = 'launches'
    GROUP BY r.signature_id
);

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
        s.category
    FROM launches AS l
    INNER JOIN traces AS t ON l.trace_id = t.trace_id AND t.rank IS NOT NULL
    INNER JOIN signatures AS s ON l.signature_id = s.signature_id AND s.category = 'COMMUNICATION'
    INNER JOIN kernel_names AS k ON s.name_id = k.name_id
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
-- Of the traces $trace_ids, or of all where it is NULL.
SELECT
    t.trace_id, t.name, t.source, t.era, t.kind, t.clock, t.base_ns, t.rank, t.world_size, t.launches, t.launches_start_ns, t.launches_end_ns,
    t.window_start_ns, t.window_end_ns, t.default_phase, t.stated_run, t.stated_job, t.run, t.job, t.primary_timing, t.repeats,
    e.pass, coalesce(e.summed, []) AS summed
FROM traces AS t
LEFT JOIN (
    SELECT trace_id, max(n) FILTER (kind = 'pass') AS pass, list(DISTINCT key) FILTER (kind = 'sums') AS summed
    FROM trace_evidence
    WHERE kind IN ('pass', 'sums') AND ($trace_ids IS NULL OR list_contains($trace_ids::VARCHAR[], trace_id))
    GROUP BY trace_id
) AS e USING (trace_id)
WHERE $trace_ids IS NULL OR list_contains($trace_ids::VARCHAR[], t.trace_id)
ORDER BY t.trace_id;

-- name: near
-- All that one of the traces $trace_ids may be linked with, and some more: equal sums, passes of one folder, profiles, launches of a common time, ranks
-- of as many that may have run together.
WITH own AS (
    FROM traces WHERE trace_id IN (SELECT unnest($trace_ids::VARCHAR[]))
),

placed AS (
    SELECT
        o.trace_id AS own_id,
        t.trace_id,
        o.source = 'ncu' AND t.source = 'ncu' AS are_profiles,
        coalesce(o.base_ns = t.base_ns, true)
        AND coalesce(
            t.launches_start_ns <= o.launches_end_ns AND o.launches_start_ns <= t.launches_end_ns, o.launches > 0 AND t.launches > 0
        ) AS are_of_one_time,
        o.rank <> t.rank
        AND o.world_size IS NOT DISTINCT FROM t.world_size
        AND o.stated_job IS NOT DISTINCT FROM t.stated_job
        AND coalesce(
            o.clock <> 'epoch'
            OR t.clock <> 'epoch'
            OR (
                o.base_ns::HUGEINT + o.window_start_ns < t.base_ns::HUGEINT + t.window_end_ns
                AND t.base_ns::HUGEINT + t.window_start_ns < o.base_ns::HUGEINT + o.window_end_ns
            ),
            true
        ) AS are_ranks
    FROM traces AS t
    INNER JOIN own AS o ON t.trace_id <> o.trace_id
)

SELECT trace_id FROM placed WHERE are_profiles OR are_of_one_time OR are_ranks
UNION
SELECT b.trace_id
FROM trace_evidence AS a
INNER JOIN trace_evidence AS b ON a.kind = b.kind AND a.key = b.key AND a.trace_id <> b.trace_id AND CASE a.kind WHEN 'sums' THEN a.n = b.n ELSE true END
WHERE a.kind IN ('sums', 'pass') AND a.trace_id IN (SELECT unnest($trace_ids::VARCHAR[]));

-- name: links
-- Of the traces $trace_ids, or all where it is NULL.
SELECT trace_id, other_id, relation, method, score, evidence, apart_ns
FROM trace_links
WHERE
    $trace_ids IS NULL
    OR trace_id IN (SELECT unnest($trace_ids::VARCHAR[]))
    OR other_id IN (SELECT unnest($trace_ids::VARCHAR[]));

-- name: tied
-- What depends on the runs and jobs of the traces $trace_ids at first hand: see `clashes` for names.
WITH own AS (
    FROM traces WHERE trace_id IN (SELECT unnest($trace_ids::VARCHAR[]))
)

SELECT trace_id
FROM traces
WHERE
    run IN (SELECT run FROM own UNION SELECT stated_run FROM own)
    OR stated_run IN (SELECT run FROM own UNION SELECT stated_run FROM own)
    OR stated_job IN (SELECT stated_job FROM own)
UNION
SELECT other_id FROM trace_links WHERE trace_id IN (SELECT unnest($trace_ids::VARCHAR[]))
UNION
SELECT trace_id FROM trace_links WHERE other_id IN (SELECT unnest($trace_ids::VARCHAR[]));

-- name: clashes
-- Whether a name among $runs, $stated (runs) or $jobs of the traces $trace_ids may change what others are called; or a run has a number behind its
-- name already, which may not be needed any more.
SELECT count(*) > 0
FROM traces
WHERE
    trace_id NOT IN (SELECT unnest($trace_ids::VARCHAR[]))
    AND (
        run IN (SELECT unnest($runs::VARCHAR[]))
        OR stated_run IN (SELECT unnest($runs::VARCHAR[]))
        OR name IN (SELECT unnest($stated::VARCHAR[]))
        OR run IN (SELECT unnest($jobs::VARCHAR[]))
        OR job IN (SELECT unnest($jobs::VARCHAR[]))
        OR stated_job IN (SELECT unnest($jobs::VARCHAR[]))
        OR (
            stated_run IS NULL
            AND run NOT IN (SELECT name FROM traces)
            AND run NOT IN (SELECT stated_run FROM traces WHERE stated_run IS NOT NULL)
        )
    );

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
UPDATE trace_links SET relation = changed.relation
FROM (
    SELECT
        unnest($trace_id::VARCHAR[]) AS trace_id,
        unnest($other_id::VARCHAR[]) AS other_id,
        unnest($relation::VARCHAR[]) AS relation
) AS changed
WHERE trace_links.trace_id = changed.trace_id AND trace_links.other_id = changed.other_id AND trace_links.relation <> 'print';

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
-- How many launches two traces have in common, of how many: of the kinds that both hold, and of the time in which both have launches. `named`:
-- those whose names agree up to template arguments and mangling. `fewest`: all launches of the trace that has fewer.
WITH called AS (
    SELECT
        l.trace_id = $trace_id AS is_own,
        l.kind,
        l.start_ns,
        l.duration_ns,
        CASE l.kind WHEN 'kernel' THEN coalesce(k.short_name, k.name) END AS called
    FROM launches AS l
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS k USING (name_id)
    WHERE l.trace_id IN ($trace_id, $other_id) AND l.start_ns IS NOT NULL AND l.duration_ns IS NOT NULL
),

placed AS (
    SELECT DISTINCT is_own, kind, start_ns, duration_ns, base FROM _base_names('called')
),

common AS (
    SELECT kind, max(first_ns) AS first_ns, min(last_ns) AS last_ns
    FROM (
        SELECT kind, is_own, min(start_ns) AS first_ns, max(start_ns) AS last_ns FROM placed GROUP BY kind, is_own
    )
    GROUP BY kind
    HAVING count(*) = 2
),

sides AS (
    SELECT
        p.kind,
        p.start_ns,
        p.duration_ns,
        bool_or(p.is_own) AS is_own,
        bool_or(NOT p.is_own) AS is_others,
        max(p.base) FILTER (p.is_own) AS base,
        max(p.base) FILTER (NOT p.is_own) AS other_base
    FROM placed AS p
    INNER JOIN common AS c ON p.kind = c.kind AND p.start_ns BETWEEN c.first_ns AND c.last_ns
    GROUP BY p.kind, p.start_ns, p.duration_ns
)

SELECT
    count(*) FILTER (is_own AND is_others) AS shared,
    count(*) FILTER (is_own AND is_others AND (kind <> 'kernel' OR names_agree)) AS named,
    least(count(*) FILTER (is_own), count(*) FILTER (is_others)) AS fewer,
    (SELECT least(count(*) FILTER (is_own), count(*) FILTER (NOT is_own)) FROM placed) AS fewest
FROM _names_agree('sides');

-- name: equal_sums
-- Other traces with as many kernels or copies of the same total time: to the nanosecond, of the same names or many with the same shortest and
-- longest one; or of the same names, where one print has fewer digits than the other (much fewer only where starts can be held against each
-- other, too). An export without times is recognised by many launches of the same kinds.
-- `is_sure`: to the nanosecond, or so many launches and digits that no other run is as near.
WITH compared AS (
    SELECT
        a.key,
        a.n,
        a.first_ns,
        b.trace_id,
        a.detail = b.detail AS is_named,
        abs(a.first_ns - b.first_ns) AS apart_ns,
        coalesce(a.min_ns = b.min_ns AND a.max_ns = b.max_ns, true) AS is_alike,
        greatest(coalesce(a.tolerance_ns, 0), coalesce(b.tolerance_ns, 0)) AS coarse_ns,
        least(coalesce(a.tolerance_ns, 0), coalesce(b.tolerance_ns, 0)) AS fine_ns,
        a.last_ns = 0 AND b.last_ns = 0 AS is_of_launches
    FROM trace_evidence AS a
    INNER JOIN trace_evidence AS b ON a.kind = b.kind AND a.key = b.key AND a.n = b.n AND a.trace_id <> b.trace_id
    WHERE a.trace_id = $trace_id AND a.kind = 'sums'
)

SELECT
    c.trace_id,
    list_sort(list(DISTINCT c.key)) AS equal,
    max(c.n) AS n,
    max(c.first_ns) AS total_ns,
    bool_and(coalesce(c.apart_ns = 0 OR (c.n >= 20 AND c.coarse_ns <= 1e-5 * c.first_ns), false)) AS is_sure,
    (
        SELECT list_sort(list(DISTINCT x.key))
        FROM trace_evidence AS x
        INNER JOIN trace_evidence AS y ON y.trace_id = c.trace_id AND y.kind = 'sums' AND x.key = y.key
        WHERE x.trace_id = $trace_id AND x.kind = 'sums'
    ) AS common
FROM compared AS c
WHERE
    CASE
        WHEN c.apart_ns IS NULL THEN c.is_named AND c.n >= 10
        WHEN c.apart_ns = 0 THEN c.first_ns > 0 AND c.n > 1 AND c.is_alike AND (c.is_named OR c.n >= 100)
        ELSE
            c.is_named
            AND c.n >= 3
            AND c.fine_ns * 10 <= c.coarse_ns
            AND (c.is_of_launches OR c.coarse_ns <= 1e-2 * c.first_ns)
            AND c.apart_ns <= c.coarse_ns + c.fine_ns
    END
GROUP BY c.trace_id;

-- name: same_starts
-- How many launches of two traces began at the same time, one after the other, as far as digits were printed.
WITH placed AS (
    SELECT
        trace_id AS report,
        trace_id = $trace_id AS is_own,
        kind = 'kernel' AS of_kernels,
        start_ns,
        row_number() OVER (PARTITION BY trace_id, kind = 'kernel' ORDER BY start_ns) AS place,
        abs(start_ns) AS printed_ns
    FROM launches
    WHERE trace_id IN ($trace_id, $other_id) AND start_ns IS NOT NULL AND timing = 'timeline'
),

rounded AS (
    FROM _printed_digits('placed')
)

SELECT
    count(*) AS n,
    count(*) FILTER (abs(a.start_ns::HUGEINT - b.start_ns) <= coalesce(a.rounded_ns, 0) + coalesce(b.rounded_ns, 0)) AS near
FROM rounded AS a
INNER JOIN rounded AS b ON a.of_kernels = b.of_kernels AND a.place = b.place
WHERE a.is_own AND NOT b.is_own;

-- name: same_passes
SELECT b.trace_id, a.n AS pass, b.n AS other_pass
FROM trace_evidence AS a
INNER JOIN trace_evidence AS b
    ON a.kind = b.kind AND a.key = b.key AND a.detail = b.detail AND a.n <> b.n AND a.trace_id <> b.trace_id
WHERE a.trace_id = $trace_id AND a.kind = 'pass';

-- name: profiled_pairs
-- Launches of Nsight Compute with the same process and launch id in two traces: whether all agree in name, grid and block (`named`), and how many
-- of their metrics do within the printed digits.
WITH called AS (
    SELECT
        l.trace_id,
        l.launch_index,
        l.process,
        l.correlation_id,
        s.grid_x,
        s.grid_y,
        s.grid_z,
        s.block_x,
        s.block_y,
        s.block_z,
        coalesce(k.short_name, k.name) AS called
    FROM launches AS l
    INNER JOIN traces AS t ON l.trace_id = t.trace_id AND t.source = 'ncu'
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS k USING (name_id)
    WHERE l.timing = 'profiled' AND l.start_ns IS NULL AND l.correlation_id IS NOT NULL
),

profiled AS (
    FROM _base_names('called')
),

matched AS (
    SELECT
        a.launch_index,
        b.trace_id AS other_id,
        b.launch_index AS other_index,
        a.base,
        b.base AS other_base,
        coalesce(a.grid_x = b.grid_x AND a.grid_y = b.grid_y AND a.grid_z = b.grid_z, true)
        AND coalesce(a.block_x = b.block_x AND a.block_y = b.block_y AND a.block_z = b.block_z, true) AS shapes_agree,
        try_cast(a.process AS BIGINT) AS process
    FROM profiled AS a
    INNER JOIN profiled AS b ON a.correlation_id = b.correlation_id AND a.process IS NOT DISTINCT FROM b.process
    WHERE a.trace_id = $trace_id AND b.trace_id <> $trace_id
),

pairs AS (
    SELECT *, names_agree AND shapes_agree AS named FROM _names_agree('matched')
),

compared AS (
    SELECT
        p.other_id,
        p.launch_index,
        a.metric,
        -- Of the launch configuration, the same in every run of a program; or what a rule of ncu makes of it.
        regexp_matches(a.metric, '^(launch__|device__|sm(sp)?__maximum_|rule:)') AS is_static,
        -- A rate of many digits, which varies from run to run; totals and clocks are often the same.
        bool_or(a.unit LIKE '%/s' AND abs(a.value) >= 2000 * a.precision AND abs(b.value) >= 2000 * b.precision) AS is_rate,
        -- Of several sections that print a metric, those that agree best.
        bool_or(abs(a.value - b.value) <= (coalesce(a.precision, 0) + coalesce(b.precision, 0)) * (1 + 1e-9) + 1e-9 * abs(a.value)) AS agrees
    FROM pairs AS p
    INNER JOIN metrics AS a ON a.trace_id = $trace_id AND a.launch_index = p.launch_index
    INNER JOIN metrics AS b
        ON b.trace_id = p.other_id AND b.launch_index = p.other_index AND a.metric = b.metric AND a.instance IS NOT DISTINCT FROM b.instance
    WHERE p.named AND a.value IS NOT NULL AND b.value IS NOT NULL
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
    coalesce(any_value(c.equal_metrics), 0) AS equal_metrics,
    coalesce(any_value(c.equal_measured), 0) AS equal_measured,
    coalesce(any_value(c.equal_rates), 0) AS equal_rates
FROM pairs AS p
LEFT JOIN (
    SELECT
        other_id,
        count(*) FILTER (metric = 'gpu__time_duration.sum') AS durations,
        count(*) FILTER (metric = 'gpu__time_duration.sum' AND agrees) AS equal_durations,
        count(*) AS metrics,
        count(*) FILTER (agrees) AS equal_metrics,
        count(*) FILTER (agrees AND NOT is_static) AS equal_measured,
        count(*) FILTER (agrees AND NOT is_static AND is_rate) AS equal_rates
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
-- Traces that hold the same work, best first: PyTorch (it knows the operators), then with durations, more launches, more exact durations, sizes
-- of operators, host calls, more metrics, longer names (some prints cut them).
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
    SELECT trace_id, max(tolerance_ns) AS tolerance_ns
    FROM trace_evidence
    WHERE kind = 'sums' AND last_ns = 0 AND list_contains($trace_ids::VARCHAR[], trace_id)
    GROUP BY trace_id
) AS printed USING (trace_id)
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
    coalesce(printed.tolerance_ns, 0),
    coalesce(measured.coarseness, 0),
    t.has_shapes IS NOT TRUE,
    calls.trace_id IS NULL,
    coalesce(measured.n, 0) DESC,
    sums.letters DESC,
    t.trace_id;

-- name: timings
-- Those of $trace_ids that hold profiled launches, or timed ones of a timeline.
SELECT timing, list(DISTINCT trace_id)
FROM rollups
WHERE origin = 'launches' AND (timed > 0 OR timing = 'profiled') AND list_contains($trace_ids::VARCHAR[], trace_id)
GROUP BY timing;

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
UPDATE traces SET repeats = $repeats::VARCHAR[] WHERE trace_id = $trace_id;

-- name: unmark
UPDATE launches SET is_repeat = NULL WHERE trace_id = $trace_id AND is_repeat;
DELETE FROM launch_prints WHERE trace_id = $trace_id;

-- name: sharing
-- Those of the traces $others that hold launches of $trace_id: by their times, or where they have none by process and number.
SELECT DISTINCT b.trace_id
FROM launches AS w
INNER JOIN launches AS b
    ON
        w.kind = b.kind
        AND w.start_ns IS NOT DISTINCT FROM b.start_ns
        AND CASE
            WHEN w.start_ns IS NULL THEN w.correlation_id = b.correlation_id AND w.process IS NOT DISTINCT FROM b.process
            ELSE w.duration_ns IS NOT DISTINCT FROM b.duration_ns
        END
WHERE w.trace_id = $trace_id AND b.trace_id IN (SELECT unnest($others::VARCHAR[]));

-- name: mark_all
UPDATE launches SET is_repeat = true WHERE trace_id = $trace_id;

-- name: mark_placed
-- Launches that a better print ($better) holds, too: the same start and duration, which both may lack (refused as absurd, say). Of several alike,
-- on several GPUs, as many as there.
UPDATE launches SET is_repeat = true
FROM (
    WITH own AS (
        SELECT
            launch_index,
            kind,
            start_ns,
            duration_ns,
            row_number() OVER (PARTITION BY kind, start_ns, duration_ns ORDER BY device, launch_index) AS place
        FROM launches
        WHERE trace_id = $trace_id AND start_ns IS NOT NULL
    ),

    held AS (
        SELECT kind, start_ns, duration_ns, count(*) AS n
        FROM launches
        WHERE trace_id IN (SELECT unnest($better::VARCHAR[])) AND start_ns IS NOT NULL AND is_repeat IS NOT TRUE
        GROUP BY kind, start_ns, duration_ns
    )

    SELECT o.launch_index
    FROM own AS o
    INNER JOIN held AS h ON o.kind = h.kind AND o.start_ns = h.start_ns AND o.duration_ns IS NOT DISTINCT FROM h.duration_ns
    WHERE o.place <= h.n
) AS found
WHERE launches.trace_id = $trace_id AND launches.launch_index = found.launch_index;

-- name: pair_placed
INSERT INTO launch_prints BY NAME
WITH matches AS (
    SELECT w.trace_id, w.launch_index, b.trace_id AS other_id, b.launch_index AS other_index
    FROM launches AS w
    INNER JOIN launches AS b ON w.kind = b.kind AND w.start_ns = b.start_ns AND w.duration_ns IS NOT DISTINCT FROM b.duration_ns
    WHERE
        w.trace_id = $trace_id
        AND w.timing = 'profiled'
        AND b.trace_id IN (SELECT unnest($better::VARCHAR[]))
        AND b.is_repeat IS NOT TRUE
)

FROM _first_matches('matches');

-- name: pair_profiled
-- Launches of Nsight Compute by process and launch id.
INSERT INTO launch_prints BY NAME
WITH matches AS (
    SELECT w.trace_id, w.launch_index, b.trace_id AS other_id, b.launch_index AS other_index
    FROM launches AS w
    INNER JOIN launches AS b ON w.correlation_id = b.correlation_id AND w.process IS NOT DISTINCT FROM b.process AND w.kind = b.kind
    WHERE
        w.trace_id = $trace_id
        AND w.start_ns IS NULL
        AND b.start_ns IS NULL
        AND b.trace_id IN (SELECT unnest($better::VARCHAR[]))
        AND b.is_repeat IS NOT TRUE
)

FROM _first_matches('matches');

-- name: fill_profiled
-- What the better print of a launch does not hold is in this one: the finest durations are often on a page without occupancy.
UPDATE launches SET
    occupancy = coalesce(launches.occupancy, printed.occupancy),
    theoretical_occupancy = coalesce(launches.theoretical_occupancy, printed.theoretical_occupancy)
FROM (
    SELECT p.primary_trace_id, p.primary_launch_index, w.occupancy, w.theoretical_occupancy
    FROM launch_prints AS p
    INNER JOIN launches AS w ON p.trace_id = w.trace_id AND p.launch_index = w.launch_index
    WHERE p.trace_id = $trace_id AND coalesce(w.occupancy, w.theoretical_occupancy) IS NOT NULL
) AS printed
WHERE
    launches.trace_id = printed.primary_trace_id
    AND launches.launch_index = printed.primary_launch_index
    AND (launches.occupancy IS NULL OR launches.theoretical_occupancy IS NULL);

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
),

matches AS (
    SELECT w.trace_id, w.launch_index, b.trace_id AS other_id, b.launch_index AS other_index
    FROM numbered AS w
    INNER JOIN numbered AS b ON w.signature_id = b.signature_id AND w.place = b.place
    WHERE w.trace_id = $trace_id AND b.trace_id <> $trace_id AND b.is_repeat IS NOT TRUE
)

FROM _first_matches('matches');

-- name: mark_paired
UPDATE launches SET is_repeat = true
WHERE trace_id = $trace_id AND launch_index IN (SELECT launch_index FROM launch_prints WHERE trace_id = $trace_id);

-- name: forget_rollups
DELETE FROM rollups WHERE trace_id = $trace_id AND origin = 'launches';

-- name: reports
-- Whether any of the traces holds sums that a tool printed.
SELECT count(*) > 0 FROM rollups WHERE list_contains($trace_ids::VARCHAR[], trace_id) AND origin <> 'launches';

-- name: mark_reports
-- Sums that a tool printed count where nothing better covers the same work: launches, then sums per launch configuration, then per name.
-- Sums per phase never do: ranges nest, and a kernel stands under each. Kernels and copies are judged apart, for most reports hold one of
-- them. Prints of one report, and equal sums, are one report.
UPDATE rollups SET is_repeat = judged.is_repeat
FROM (
    WITH groups AS (
        SELECT
            t.run,
            t.rank,
            t.default_phase,
            t.repeats,
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
        a.trace_id,
        a.origin,
        a.timing,
        a.of_kernels,
        CASE
            WHEN
                a.origin = 'report_phase'
                OR bool_or(
                    b.distance < a.distance
                    OR (
                        b.distance = a.distance
                        AND b.trace_id <> a.trace_id
                        AND CASE
                            WHEN list_contains(a.repeats, b.trace_id) THEN true
                            WHEN list_contains(b.repeats, a.trace_id) THEN false
                            ELSE b.n = a.n AND b.total_ns IS NOT DISTINCT FROM a.total_ns AND (-b.letters, b.trace_id) < (-a.letters, a.trace_id)
                        END
                    )
                )
                THEN true
        END AS is_repeat
    FROM groups AS a
    LEFT JOIN groups AS b
        ON
            a.run = b.run
            AND a.of_kernels = b.of_kernels
            AND a.timing = b.timing
            AND coalesce(a.rank = b.rank, true)
            AND coalesce(a.default_phase = b.default_phase, true)
    WHERE a.origin <> 'launches'
    GROUP BY a.trace_id, a.origin, a.timing, a.of_kernels
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
