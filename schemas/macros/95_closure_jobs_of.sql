-- The measured stages of jobs of several ranks, computation and communication apart. All figures per iteration; times are means over the
-- ranks, the wall time is the longest of them, the energy the sum. A collective lasts until the last rank has come: what a launch has beyond
-- the shortest of its ranks is waiting (collective_waits), the rest transfer, and replays of collectives are held to that. Computation is
-- everything else, copies too.
CREATE OR REPLACE MACRO closure_jobs_of(source) AS TABLE
WITH ranked AS (
    SELECT s.*, coalesce(t.job, s.trace) AS job, t.rank, t.world_size
    FROM closure_stages AS s
    INNER JOIN traces AS t ON s.trace_id = t.trace_id
),

summed AS (
    SELECT
        trace,
        stage,
        mode,
        category IS NOT DISTINCT FROM 'COMMUNICATION' AS communicates,
        sum(n) AS n,
        sum(recorded_ns) AS recorded_ns,
        coalesce(sum(recorded_ns) FILTER (replayed_ns IS NOT NULL), 0) AS compared_ns,
        coalesce(sum(replayed_ns), 0) AS replayed_ns,
        sum(recorded_ns) FILTER (wait_ns IS NOT NULL) AS transfer_ns,
        sum(recorded_ns) FILTER (wait_ns IS NOT NULL AND replayed_ns IS NOT NULL) AS transfer_compared_ns,
        sum(replayed_ns) FILTER (wait_ns IS NOT NULL) AS transfer_replayed_ns,
        sum(wait_ns) AS wait_ns
    FROM closure_kernels_of(source)
    GROUP BY ALL
),

parts AS (
    SELECT
        r.*,
        coalesce(a.n, 0) AS computation_n,
        coalesce(a.recorded_ns, 0) AS computation_ns,
        coalesce(a.compared_ns, 0) AS computation_compared_ns,
        coalesce(a.replayed_ns, 0) AS computation_replayed_ns,
        coalesce(c.n, 0) AS communication_n,
        coalesce(c.recorded_ns + coalesce(c.wait_ns, 0), 0) AS communication_ns,
        c.transfer_ns,
        c.wait_ns,
        coalesce(c.transfer_compared_ns, 0) AS transfer_compared_ns,
        coalesce(c.transfer_replayed_ns, 0) AS transfer_replayed_ns
    FROM ranked AS r
    LEFT JOIN summed AS a
        ON r.trace = a.trace AND r.stage = a.stage AND r.mode IS NOT DISTINCT FROM a.mode AND NOT a.communicates
    LEFT JOIN summed AS c
        ON r.trace = c.trace AND r.stage = c.stage AND r.mode IS NOT DISTINCT FROM c.mode AND c.communicates
)

SELECT
    job,
    stage,
    mode,
    min(run) AS run,
    min(model) AS model,
    min(gpu) AS gpu,
    count(DISTINCT rank) AS ranks,
    max(world_size) AS world_size,
    max(wall_ns) AS wall_ns,
    CASE WHEN count(energy_mj) = count(*) THEN sum(energy_mj) END AS energy_mj,
    avg(computation_n) AS computation_n,
    avg(computation_ns) AS computation_ns,
    avg(computation_replayed_ns) AS computation_replayed_ns,
    100 * sum(computation_compared_ns) / nullif(sum(computation_ns), 0) AS computation_replayed_pct,
    100 * (sum(computation_replayed_ns) / nullif(sum(computation_compared_ns), 0) - 1) AS computation_error_pct,
    avg(communication_n) AS communication_n,
    avg(communication_ns) AS communication_ns,
    avg(transfer_ns) AS transfer_ns,
    avg(wait_ns) AS wait_ns,
    max(wait_ns) AS longest_wait_ns,
    arg_min(rank, (wait_ns, rank)) FILTER (wait_ns IS NOT NULL) AS slowest_rank,
    avg(transfer_replayed_ns) AS transfer_replayed_ns,
    100 * sum(transfer_compared_ns) / nullif(sum(transfer_ns), 0) AS transfer_replayed_pct,
    100 * (sum(transfer_replayed_ns) / nullif(sum(transfer_compared_ns), 0) - 1) AS transfer_error_pct
FROM parts
GROUP BY job, stage, mode
HAVING count(DISTINCT rank) > 1
ORDER BY job, stage, mode;
