-- Waiting apart from transfer, over the ranks of one job: sums of collective_instances per rank, operation and group. Instances that not all
-- traced ranks show are left out of `transfer_ns` and `wait_ns`, and counted.
CREATE OR REPLACE MACRO collective_waits(source) AS TABLE
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
    count(*) FILTER (came_last) AS came_last
FROM collective_instances(source)
GROUP BY job, trace, rank, operation, group_ranks
ORDER BY total_ns DESC, job, rank, operation, group_ranks, trace;
