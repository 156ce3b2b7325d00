-- Which ranks of a job waited for which in collectives, how long, and whether the late one computed longer or stood idle longer before.
--
-- Of `collective_instances` those that all traced ranks show, over all ranks of the jobs of the selected traces; of the selected ones is told. After a
-- collective the ranks of its group go on together: what the late one needs longer until it joins the next one, it computed (or copied, or exchanged with
-- others), or its GPU stood idle. The rest of a wait, if any, is that it left the one before later. Of broadcasts, reductions to one rank, gathers and
-- scatters it is likely only: the data of a sender may be in buffers when it goes on.
--
-- Columns:
--   run: as in collective_waits
--   trace, rank: as in kernels
--   late_rank: as in collective_instances
--   late_trace VARCHAR: Its trace.
--   n BIGINT: Collectives in which this rank waited for that one.
--   wait_ns BIGINT [ns]: How long it waited in these, also where computation hides it.
--   share_pct DOUBLE [%]: Share of that in the time from the first launch of its trace to the last.
--   computed_longer_ns BIGINT [ns]: How much longer the GPU of the late rank was busy since the collective of the group before, summed; negative: shorter.
--     NULL where there is no collective before.
--   idle_longer_ns BIGINT [ns]: How much longer it stood idle then; NULL like computed_longer_ns.
--   longest_wait_ns BIGINT [ns]: Longest of the waits.
--   longest_operation VARCHAR: Operation of the collective with that wait.
--   longest_bytes BIGINT [bytes]: Its size.
--   longest_at_ns BIGINT [ns]: When this rank began it, from the start of the first launch of its trace on.
-- Example:
--   SELECT run, rank, late_rank, n, wait_ns, computed_longer_ns, idle_longer_ns FROM collective_stragglers();
CREATE OR REPLACE MACRO collective_stragglers(source := 'kernels') AS TABLE
WITH _chosen AS (
    SELECT DISTINCT t.trace_id, t.job FROM traces AS t WHERE t.trace_id IN (SELECT trace_id FROM query_table(source))
),

-- Ranks that are not selected are waited for, and wait, too: all of their launches count.
_ranks AS (
    SELECT DISTINCT t.trace_id FROM traces AS t INNER JOIN _chosen AS c ON t.job = c.job
),

_exchanges AS (FROM _launches_of_jobs('_chosen')),

_busy AS (
    SELECT
        trace_id,
        device,
        launch_index,
        start_ns,
        max(end_ns) OVER (
            PARTITION BY trace_id, device ORDER BY start_ns, launch_index ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS busy_until_ns
    FROM _kernels
    WHERE timing = 'timeline' AND trace_id IN (FROM _ranks)
),

-- How long a device had been idle in all when a pause of it ended.
_idle AS MATERIALIZED (
    SELECT
        trace_id,
        device,
        start_ns AS until_ns,
        sum(start_ns - busy_until_ns) OVER (PARTITION BY trace_id, device ORDER BY start_ns) AS idle_ns
    FROM _busy
    WHERE start_ns > busy_until_ns
),

_instances AS (
    SELECT
        i.*,
        l.device,
        max(i.start_ns + i.duration_ns) OVER (
            PARTITION BY i.trace_id, i.group_ranks ORDER BY i.start_ns, i.launch_index ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS left_ns
    FROM collective_instances('_exchanges') AS i
    INNER JOIN _kernels AS l USING (trace_id, launch_index)
    WHERE i.wait_ns IS NOT NULL
),

_since AS (
    SELECT
        i.*,
        i.start_ns - i.left_ns AS since_ns,
        CASE WHEN i.left_ns IS NOT NULL THEN greatest(coalesce(b.idle_ns, 0) - coalesce(a.idle_ns, 0), 0) END AS idle_ns
    FROM _instances AS i
    ASOF LEFT JOIN _idle AS b ON b.trace_id = i.trace_id AND b.device IS NOT DISTINCT FROM i.device AND b.until_ns <= i.start_ns
    ASOF LEFT JOIN _idle AS a ON a.trace_id = i.trace_id AND a.device IS NOT DISTINCT FROM i.device AND a.until_ns <= i.left_ns
),

_compared AS (
    SELECT
        *,
        any_value(trace) FILTER (came_last) OVER instance AS late_trace,
        any_value(idle_ns) FILTER (came_last) OVER instance - idle_ns AS idle_longer_ns,
        any_value(since_ns) FILTER (came_last) OVER instance - since_ns AS later_ns
    FROM _since
    WINDOW instance AS (PARTITION BY job, group_ranks, operation, collective_seq, ordinal)
)

SELECT
    c.job AS run,
    c.trace,
    c.rank,
    c.late_rank,
    c.late_trace,
    count(*) AS n,
    try_cast(sum(c.wait_ns) AS BIGINT) AS wait_ns,
    100 * sum(c.wait_ns) / nullif(any_value(t.launches_end_ns - t.launches_start_ns), 0) AS share_pct,
    try_cast(sum(c.later_ns - c.idle_longer_ns) AS BIGINT) AS computed_longer_ns,
    try_cast(sum(c.idle_longer_ns) AS BIGINT) AS idle_longer_ns,
    max(c.wait_ns) AS longest_wait_ns,
    arg_max(c.operation, (c.wait_ns, -c.start_ns)) AS longest_operation,
    arg_max_null(c.bytes, (c.wait_ns, -c.start_ns)) AS longest_bytes,
    arg_max(c.start_ns - t.launches_start_ns, (c.wait_ns, -c.start_ns)) AS longest_at_ns
FROM _compared AS c
INNER JOIN traces AS t USING (trace_id)
WHERE c.wait_ns > 0 AND c.trace_id IN (SELECT trace_id FROM _chosen)
GROUP BY c.job, c.trace, c.rank, c.late_rank, c.late_trace
ORDER BY wait_ns DESC, run, rank, late_rank, trace, late_trace;
