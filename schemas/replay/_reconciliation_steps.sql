-- The launches that belong to one iteration or another of a measured workload: of `source`, with columns of `kernels`, for `workloads`, with those of
-- _reconciliation_workloads. Iterations are the steps that the profiler wrote (`ProfilerStep#7`), else the ranges called as the workload; a launch belongs to the
-- one in which the host launched it. Without either, all launches of the workload count, in no iteration. A collective counts from when the last rank
-- has come: its wait for the others, where their traces are here, is not part of it.
CREATE OR REPLACE MACRO _reconciliation_steps(source, workloads) AS TABLE
WITH wanted AS (
    SELECT DISTINCT launches_trace_id AS trace_id, workload, CASE WHEN launches_trace_id = trace_id THEN own_by_phase ELSE by_phase END AS by_phase
    FROM query_table(workloads)
    UNION
    SELECT DISTINCT kernels_trace_id, workload, by_phase FROM query_table(workloads)
),

-- Of whole traces: what is selected may be of one rank.
waited AS (
    SELECT trace_id, launch_index, wait_ns FROM collective_instances('_kernels') WHERE wait_ns IS NOT NULL
),

launched AS (
    SELECT
        k.trace_id,
        w.workload,
        k.signature_id,
        k.inferred_id,
        k.inferred_by,
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
    INNER JOIN wanted AS w ON k.trace_id = w.trace_id AND (k.phase = w.workload OR NOT w.by_phase)
    LEFT JOIN waited AS c ON k.trace_id = c.trace_id AND k.launch_index = c.launch_index
    WHERE k.timing = 'timeline' AND k.start_ns IS NOT NULL AND k.end_ns IS NOT NULL
),

-- Of those that begin at one moment, the longest.
markers AS (
    SELECT trace_id, workload, start_ns, max(end_ns) AS end_ns
    FROM (
        SELECT
            r.trace_id,
            w.workload,
            r.start_ns,
            r.start_ns + r.duration_ns AS end_ns,
            r.name LIKE 'ProfilerStep#%' AS stepped
        FROM ranges AS r
        INNER JOIN wanted AS w ON r.trace_id = w.trace_id AND (r.name LIKE 'ProfilerStep#%' OR r.name = w.workload)
        WHERE r.device IS NULL AND r.duration_ns > 0
        QUALIFY stepped OR NOT bool_or(stepped) OVER (PARTITION BY r.trace_id, w.workload)
    )
    GROUP BY trace_id, workload, start_ns
),

-- Launches and markers in one order of time: a launch belongs to the last marker before it, if that has not ended.
merged AS (
    SELECT trace_id, workload, host_ns AS t_ns, 1 AS is_launch, launch_index, NULL AS marker FROM launched
    UNION ALL
    SELECT trace_id, workload, start_ns, 0, NULL, {'start_ns': start_ns, 'end_ns': end_ns} FROM markers
),

found AS (
    SELECT
        trace_id,
        workload,
        launch_index,
        t_ns,
        last_value(marker IGNORE NULLS) OVER (
            PARTITION BY trace_id, workload ORDER BY t_ns, is_launch ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS marker,
        bool_or(is_launch = 0) OVER (PARTITION BY trace_id, workload) AS marked
    FROM merged
    QUALIFY is_launch = 1
)

SELECT
    l.*,
    f.marked,
    CASE WHEN f.t_ns < f.marker.end_ns THEN f.marker.start_ns END AS iteration_start_ns
FROM launched AS l
INNER JOIN found AS f USING (trace_id, workload, launch_index)
WHERE NOT f.marked OR f.t_ns < f.marker.end_ns;
