-- How the device went through the launches of _reconciliation_steps(source, workloads). `gap_ns` is how long it had waited before the launch, from the start of
-- the iteration on, and `busy_ns` what the launch adds to the time in which the device ran anything. `queued` launches were made before the device
-- was through with the work before: their gap is the device's own. `beside`: other work still ran when it began. `held_up`: it waited 10 µs longer
-- than the same launch of another iteration, as where a profiler empties its buffers (11 ms were seen).
--
-- Launches of a CUDA graph have no operator. Where another trace has the kernels of the workload with their operators, `signature_id` is that of the same launch
-- there: the j-th of the same kernel with the same grid and block in an iteration, if both have as many of them, or if it has but one signature
-- there. A kernel whose mean duration is another one (a quarter and 500 ns) does other work: `unmatched` says so.
CREATE OR REPLACE MACRO _reconciliation_launches(source, workloads) AS TABLE
WITH numbered AS (
    SELECT
        *,
        max(end_ns) OVER before_launch AS before_ns,
        row_number() OVER alike AS ordinal,
        count(*) OVER (PARTITION BY trace_id, workload, iteration_start_ns, shape) AS alike,
        avg(duration_ns) OVER (PARTITION BY trace_id, workload, shape) AS alike_ns
    FROM _reconciliation_steps(source, workloads)
    WINDOW
        before_launch AS (
            PARTITION BY trace_id, workload, device ORDER BY start_ns, launch_index ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        alike AS (PARTITION BY trace_id, workload, iteration_start_ns, shape ORDER BY start_ns, launch_index)
),

-- One iteration of a trace from which the kernels of another one are known.
donors AS (
    SELECT s.launches_trace_id AS trace_id, s.workload, n.shape, n.ordinal, n.alike, n.alike_ns, n.signature_id
    FROM numbered AS n
    INNER JOIN (
        SELECT DISTINCT workload, launches_trace_id, kernels_trace_id FROM query_table(workloads) WHERE launches_trace_id <> kernels_trace_id
    ) AS s
        ON n.trace_id = s.kernels_trace_id AND n.workload = s.workload
    QUALIFY n.iteration_start_ns IS NOT DISTINCT FROM min(n.iteration_start_ns) OVER (PARTITION BY s.launches_trace_id, s.workload)
),

known AS (
    SELECT
        trace_id,
        workload,
        shape,
        list(signature_id ORDER BY ordinal) AS signatures,
        any_value(alike) AS alike,
        any_value(alike_ns) AS alike_ns,
        count(DISTINCT signature_id) AS distinct_signatures
    FROM donors
    GROUP BY trace_id, workload, shape
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
    LEFT JOIN (SELECT DISTINCT workload, launches_trace_id AS trace_id FROM query_table(workloads) WHERE launches_trace_id <> kernels_trace_id) AS o
        ON n.trace_id = o.trace_id AND n.workload = o.workload
    LEFT JOIN known AS t ON n.trace_id = t.trace_id AND n.workload = t.workload AND n.shape = t.shape
),

waiting AS (
    SELECT *, greatest(0, arrived_ns - greatest(before_ns, iteration_start_ns))::BIGINT AS gap_ns FROM named
)

SELECT
    trace_id,
    workload,
    marked,
    iteration_start_ns,
    CASE WHEN elsewhere AND unmatched IS NULL THEN told_id ELSE signature_id END AS signature_id,
    CASE WHEN elsewhere AND unmatched IS NULL THEN NULL ELSE inferred_id END AS inferred_id,
    CASE WHEN elsewhere AND unmatched IS NULL THEN NULL ELSE inferred_by END AS inferred_by,
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
    coalesce(gap_ns - min(gap_ns) OVER (PARTITION BY trace_id, workload, shape, ordinal) > 10000, false) AS held_up,
    greatest(0, end_ns - greatest(start_ns, before_ns))::BIGINT AS busy_ns,
    coalesce(queued_ns < before_ns, false) AS queued,
    coalesce(arrived_ns < before_ns, false) AS beside
FROM waiting;
