-- The launches that belong to one iteration or another of a measured stage (of `source`: columns of `kernels`). Iterations are the steps that
-- the profiler wrote (`ProfilerStep#7`), else the ranges called as the stage; a launch belongs to the one in which the host launched it.
-- Without either, all launches of the stage count, in no iteration. `gap_ns` is how long the device had waited before the launch, from the
-- begin of the iteration on, and `busy_ns` what the launch adds to the time in which the device ran anything. `queued` launches were made
-- before the device was through with the work before: their gap is the device's own. `beside`: other work still ran when it began.
-- `held_up`: it waited 10 µs longer than the same launch of another iteration, as where a profiler empties its buffers (11 ms were seen).
-- A collective counts from when the last rank has come: its wait for the others, where their traces are here, is no part of it.
--
-- Launches of a CUDA graph have no operator. Where another trace tells what the kernels of the stage are, `signature_id` is that of the same
-- launch there: the j-th of the same kernel with the same grid and block in an iteration, if both have as many of them, or if it has but one
-- signature there. A kernel whose mean duration is another one (a quarter and 500 ns) does other work: `unmatched` says so.
CREATE OR REPLACE MACRO closure_launches(source) AS TABLE
WITH stages AS MATERIALIZED (
    FROM closure_stages
),

wanted AS (
    SELECT DISTINCT launches_trace_id AS trace_id, stage, CASE WHEN launches_trace_id = trace_id THEN own_by_phase ELSE by_phase END AS by_phase
    FROM stages
    UNION
    SELECT DISTINCT kernels_trace_id, stage, by_phase FROM stages
),

-- Of whole traces: what is selected may be of one rank.
waited AS (
    SELECT trace_id, launch_index, wait_ns FROM collective_instances('_kernels') WHERE wait_ns IS NOT NULL
),

launched AS (
    SELECT
        k.trace_id,
        w.stage,
        k.signature_id,
        k.found_id,
        k.found_by,
        hash(k.name_id, k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z) AS shape,
        k.kind,
        k.short_name,
        k.category,
        k.library,
        k.device,
        k.launch_index,
        coalesce(k.launch_start_ns, k.start_ns) AS host_ns,
        -- All nodes of a graph are queued by one call, which goes on while the first of them run.
        k.launch_start_ns + CASE WHEN k.launch_status = 'graph' THEN 0 ELSE coalesce(k.launch_duration_ns, 0) END AS queued_ns,
        k.start_ns AS arrived_ns,
        k.start_ns + coalesce(c.wait_ns, 0) AS start_ns,
        k.end_ns,
        k.duration_ns - coalesce(c.wait_ns, 0) AS duration_ns,
        c.wait_ns
    FROM query_table(source) AS k
    INNER JOIN wanted AS w ON k.trace_id = w.trace_id AND (k.phase = w.stage OR NOT w.by_phase)
    LEFT JOIN waited AS c ON k.trace_id = c.trace_id AND k.launch_index = c.launch_index
    WHERE k.timing = 'timeline' AND k.start_ns IS NOT NULL AND k.end_ns IS NOT NULL
),

-- Of those that begin at one moment, the longest.
markers AS (
    SELECT trace_id, stage, start_ns, max(end_ns) AS end_ns
    FROM (
        SELECT
            r.trace_id,
            w.stage,
            r.start_ns,
            r.start_ns + r.duration_ns AS end_ns,
            r.name LIKE 'ProfilerStep#%' AS stepped
        FROM ranges AS r
        INNER JOIN wanted AS w ON r.trace_id = w.trace_id AND (r.name LIKE 'ProfilerStep#%' OR r.name = w.stage)
        WHERE r.device IS NULL AND r.duration_ns > 0
        QUALIFY stepped OR NOT bool_or(stepped) OVER (PARTITION BY r.trace_id, w.stage)
    )
    GROUP BY trace_id, stage, start_ns
),

-- Launches and markers in one order of time: a launch belongs to the last marker before it, if that has not ended.
merged AS (
    SELECT trace_id, stage, host_ns AS t_ns, 1 AS is_launch, launch_index, NULL AS marker FROM launched
    UNION ALL
    SELECT trace_id, stage, start_ns, 0, NULL, {'start_ns': start_ns, 'end_ns': end_ns} FROM markers
),

found AS (
    SELECT
        trace_id,
        stage,
        launch_index,
        t_ns,
        last_value(marker IGNORE NULLS) OVER (
            PARTITION BY trace_id, stage ORDER BY t_ns, is_launch ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS marker,
        bool_or(is_launch = 0) OVER (PARTITION BY trace_id, stage) AS marked
    FROM merged
    QUALIFY is_launch = 1
),

kept AS (
    SELECT
        l.*,
        f.marked,
        CASE WHEN f.t_ns < f.marker.end_ns THEN f.marker.start_ns END AS iteration_start_ns
    FROM launched AS l
    INNER JOIN found AS f USING (trace_id, stage, launch_index)
    WHERE NOT f.marked OR f.t_ns < f.marker.end_ns
),

numbered AS (
    SELECT
        *,
        max(end_ns) OVER before_launch AS before_ns,
        row_number() OVER alike AS ordinal,
        count(*) OVER (PARTITION BY trace_id, stage, iteration_start_ns, shape) AS alike,
        avg(duration_ns) OVER (PARTITION BY trace_id, stage, shape) AS alike_ns
    FROM kept
    WINDOW
        before_launch AS (
            PARTITION BY trace_id, stage, device ORDER BY start_ns, launch_index ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        alike AS (PARTITION BY trace_id, stage, iteration_start_ns, shape ORDER BY start_ns, launch_index)
),

-- One iteration of a trace that tells what the kernels of another one are.
tells AS (
    SELECT s.launches_trace_id AS trace_id, s.stage, n.shape, n.ordinal, n.alike, n.alike_ns, n.signature_id
    FROM numbered AS n
    INNER JOIN (
        SELECT DISTINCT stage, launches_trace_id, kernels_trace_id FROM stages WHERE launches_trace_id <> kernels_trace_id
    ) AS s
        ON n.trace_id = s.kernels_trace_id AND n.stage = s.stage
    QUALIFY n.iteration_start_ns IS NOT DISTINCT FROM min(n.iteration_start_ns) OVER (PARTITION BY s.launches_trace_id, s.stage)
),

told AS (
    SELECT
        trace_id,
        stage,
        shape,
        list(signature_id ORDER BY ordinal) AS signatures,
        any_value(alike) AS alike,
        any_value(alike_ns) AS alike_ns,
        count(DISTINCT signature_id) AS distinct_signatures
    FROM tells
    GROUP BY trace_id, stage, shape
),

named AS (
    SELECT
        n.*,
        o.trace_id IS NOT NULL AS elsewhere,
        CASE
            WHEN o.trace_id IS NULL THEN NULL
            WHEN t.signatures IS NULL THEN 'the trace without graphs has no such launch'
            WHEN abs(n.alike_ns - t.alike_ns) > 500 AND abs(n.alike_ns - t.alike_ns) > 0.25 * t.alike_ns
                THEN format('takes {:.2f} times as long as without a graph: other work', n.alike_ns / t.alike_ns)
            WHEN n.alike <> t.alike AND t.distinct_signatures > 1 THEN 'the trace without graphs has another number of such launches'
        END AS unmatched,
        CASE WHEN n.alike = t.alike THEN t.signatures[n.ordinal] ELSE t.signatures[1] END AS told_id
    FROM numbered AS n
    LEFT JOIN (SELECT DISTINCT stage, launches_trace_id AS trace_id FROM stages WHERE launches_trace_id <> kernels_trace_id) AS o
        ON n.trace_id = o.trace_id AND n.stage = o.stage
    LEFT JOIN told AS t ON n.trace_id = t.trace_id AND n.stage = t.stage AND n.shape = t.shape
),

waiting AS (
    SELECT *, greatest(0, arrived_ns - greatest(before_ns, iteration_start_ns))::BIGINT AS gap_ns FROM named
)

SELECT
    trace_id,
    stage,
    marked,
    iteration_start_ns,
    CASE WHEN elsewhere AND unmatched IS NULL THEN told_id ELSE signature_id END AS signature_id,
    CASE WHEN elsewhere AND unmatched IS NULL THEN NULL ELSE found_id END AS found_id,
    CASE WHEN elsewhere AND unmatched IS NULL THEN NULL ELSE found_by END AS found_by,
    unmatched,
    kind,
    short_name,
    category,
    library,
    device,
    start_ns,
    end_ns,
    duration_ns,
    wait_ns,
    gap_ns,
    coalesce(gap_ns - min(gap_ns) OVER (PARTITION BY trace_id, stage, shape, ordinal) > 10000, false) AS held_up,
    greatest(0, end_ns - greatest(start_ns, before_ns))::BIGINT AS busy_ns,
    coalesce(queued_ns < before_ns, false) AS queued,
    coalesce(arrived_ns < before_ns, false) AS beside
FROM waiting;
