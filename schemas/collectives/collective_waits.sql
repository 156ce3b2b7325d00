-- How long each rank of a job waited for the others in collectives, and how often it came last itself.
--
-- Sums of `collective_instances`, which are found on all ranks of the jobs of the selected traces; of the selected ones is told. Instances that not all traced ranks show are left out of `transfer_ns` and `wait_ns`, and counted.
--
-- Columns:
--   run VARCHAR: Job that the ranks belong to; the trace where it has none.
--   trace, rank: as in kernels
--   operation, group_ranks, traced_ranks: as in collective_instances
--   n: as in kernel_rollups
--   matched BIGINT: Launches whose instance all traced ranks show.
--   total_ns: as in kernel_rollups
--   transfer_ns BIGINT [ns]: Summed duration of the shortest launch of each matched instance.
--   wait_ns BIGINT [ns]: How much longer the matched launches of this rank ran: its wait for the others, also what computation hides (`wall_time_budget` has what it
--     does not).
--   longest_wait_ns BIGINT [ns]: Longest such wait.
--   came_last BIGINT: How often this rank came last, of the matched; NULL where none is.
-- Example:
--   SELECT run, rank, operation, n, matched, transfer_ns, wait_ns, came_last FROM collective_waits();
CREATE OR REPLACE MACRO collective_waits(source := 'kernels') AS TABLE
WITH _chosen AS (
    SELECT DISTINCT t.trace_id, t.job FROM traces AS t WHERE t.trace_id IN (SELECT trace_id FROM query_table(source))
),

-- One rank alone does not show who waited.
_exchanges AS (
    FROM query_table(source)
    UNION ALL BY NAME
    SELECT *
    FROM kernels
    WHERE
        category = 'COMMUNICATION'
        AND trace_id IN (SELECT t.trace_id FROM traces AS t ANTI JOIN _chosen AS c USING (trace_id) WHERE t.job IN (SELECT job FROM _chosen))
)

SELECT
    job AS run,
    trace,
    rank,
    operation,
    group_ranks,
    any_value(traced_ranks) AS traced_ranks,
    count(*) AS n,
    count(transfer_ns) AS matched,
    try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
    try_cast(sum(transfer_ns) AS BIGINT) AS transfer_ns,
    try_cast(sum(wait_ns) AS BIGINT) AS wait_ns,
    max(wait_ns) AS longest_wait_ns,
    CASE WHEN count(transfer_ns) > 0 THEN count(*) FILTER (came_last) END AS came_last
FROM collective_instances('_exchanges')
WHERE trace_id IN (SELECT trace_id FROM _chosen)
GROUP BY job, trace, rank, operation, group_ranks
ORDER BY total_ns DESC, job, rank, operation, group_ranks, trace;
