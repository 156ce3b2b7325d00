-- Waiting apart from transfer, over the ranks of one job (of one run where its traces tell of no job). The n-th collective of a group on one
-- rank is the n-th on the others (or has the same sequence number). All ranks are there when the last has come, so the shortest launch of an
-- instance is the transfer, what a launch has beyond it the wait for others; the rank with the shortest launch came last. Instances that not
-- all traced ranks show are left out of `transfer_ns` and `wait_ns`, and counted.
CREATE OR REPLACE MACRO collective_waits(source) AS TABLE
WITH numbered AS (
    SELECT
        c.*,
        coalesce(t.job, c.run, c.trace) AS job,
        coalesce(c.group_ranks, c.group_name) AS members,
        row_number() OVER (PARTITION BY c.trace, coalesce(c.group_ranks, c.group_name), c.operation, c.collective_seq ORDER BY c.start_ns)
            AS ordinal
    FROM collective_launches(source) AS c
    INNER JOIN traces AS t ON t.name = c.trace
    WHERE c.operation NOT IN ('send', 'recv', 'sendrecv')
),

traced AS (
    SELECT job, members, count(DISTINCT trace) AS ranks FROM numbered GROUP BY ALL
),

instances AS (
    SELECT
        n.*,
        t.ranks,
        count(*) OVER instance AS seen,
        min(n.duration_ns) OVER instance AS shortest_ns,
        arg_min(n.trace, n.duration_ns) OVER instance = n.trace AS came_last
    FROM numbered AS n
    INNER JOIN traced AS t ON t.job = n.job AND t.members IS NOT DISTINCT FROM n.members
    WINDOW instance AS (PARTITION BY n.job, n.members, n.operation, n.collective_seq, n.ordinal)
)

SELECT
    job AS run,
    trace,
    rank,
    operation,
    members AS group_ranks,
    any_value(ranks) AS traced_ranks,
    count(*) AS n,
    count(*) FILTER (seen = ranks AND ranks > 1) AS matched,
    sum(duration_ns)::BIGINT AS total_ns,
    sum(shortest_ns) FILTER (seen = ranks AND ranks > 1)::BIGINT AS transfer_ns,
    sum(duration_ns - shortest_ns) FILTER (seen = ranks AND ranks > 1)::BIGINT AS wait_ns,
    max(duration_ns - shortest_ns) FILTER (seen = ranks AND ranks > 1) AS longest_wait_ns,
    count(*) FILTER (came_last AND seen = ranks AND ranks > 1) AS came_last
FROM instances
GROUP BY job, trace, rank, operation, members
ORDER BY total_ns DESC, job, rank, operation;
