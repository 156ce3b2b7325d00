-- How much of each launch of a collective is transfer, and how much is waiting for other ranks.
--
-- Over the ranks of one job (a trace of no job is alone). The n-th collective of a group on one rank is the n-th on the others (or has the same
-- sequence number). All ranks are there when the last has come, so the shortest launch of an instance is the transfer, and what a launch has beyond
-- it the wait for others; the rank with the shortest launch came last, of several the lowest.
--
-- Both are NULL where not all traced ranks show the instance, and where one rank only is traced; without sequence numbers also where ranks show
-- unequal numbers of them: then profiles began at different steps, and nobody knows which is which. Sends and receives are left out: they are no
-- exchange of the whole group. In no order.
--
-- Columns:
--   job VARCHAR: Job that the ranks belong to; the trace where it has none.
--   trace_id, trace, rank, launch_index, signature_id: as in kernels
--   operation, dtype, bytes: as in collective_launches
--   group_ranks VARCHAR: Ranks of the group, as JSON list; its name where they are not known.
--   group_size, collective_seq: as in kernels
--   ordinal BIGINT: Which of its operation, group and sequence number it is on its rank, from 1 on.
--   traced_ranks BIGINT: Ranks of the group whose traces are here.
--   start_ns, duration_ns: as in kernels
--   transfer_ns BIGINT [ns]: Shortest launch of the instance; NULL where not all traced ranks show it.
--   wait_ns BIGINT [ns]: How much longer this launch ran than the shortest of its instance: its wait for the others.
--   came_last BOOLEAN: Whether this rank came last: its launch is the shortest of the instance.
--   late_rank INTEGER: Rank that came last: that of the shortest launch.
--   transfer_bus_gbs DOUBLE [GB/s]: Bus bandwidth of the transfer, as nccl-tests computes it.
-- Example:
--   SELECT job, rank, operation, bytes, ordinal, transfer_ns, wait_ns, came_last FROM collective_instances() LIMIT 10;
CREATE OR REPLACE MACRO collective_instances(source := 'kernels') AS TABLE
WITH _numbered AS (
    SELECT
        c.*,
        coalesce(t.job, c.trace) AS job,
        coalesce(c.group_ranks, c.group_name) AS members,
        row_number() OVER (
            PARTITION BY c.trace, coalesce(c.group_ranks, c.group_name), c.operation, c.collective_seq ORDER BY c.start_ns, c.launch_index
        ) AS ordinal,
        c.collective_seq IS NULL AS is_unnumbered,
        count(*) OVER (PARTITION BY c.trace, coalesce(c.group_ranks, c.group_name), c.operation) AS of_trace
    FROM collective_launches(source) AS c
    INNER JOIN traces AS t ON t.name = c.trace
    WHERE c.operation IS DISTINCT FROM 'send' AND c.operation IS DISTINCT FROM 'recv' AND c.operation IS DISTINCT FROM 'sendrecv'
),

_traced AS (
    SELECT job, members, count(DISTINCT trace) AS ranks FROM _numbered GROUP BY ALL
),

_seen AS (
    SELECT
        n.*,
        t.ranks,
        t.ranks > 1
        AND count(*) OVER instance = t.ranks
        AND NOT (n.is_unnumbered AND min(n.of_trace) OVER instance < max(n.of_trace) OVER instance) AS whole,
        min(n.duration_ns) OVER instance AS shortest_ns,
        arg_min(n.trace, (n.duration_ns, n.rank, n.trace)) OVER instance = n.trace AS shortest,
        arg_min(n.rank, (n.duration_ns, n.rank, n.trace)) OVER instance AS shortest_rank
    FROM _numbered AS n
    INNER JOIN _traced AS t ON t.job = n.job AND t.members IS NOT DISTINCT FROM n.members
    WINDOW instance AS (PARTITION BY n.job, n.members, n.operation, n.collective_seq, n.ordinal)
)

SELECT
    job,
    trace_id,
    trace,
    rank,
    launch_index,
    signature_id,
    operation,
    dtype,
    bytes,
    members AS group_ranks,
    group_size,
    collective_seq,
    ordinal,
    ranks AS traced_ranks,
    start_ns,
    duration_ns,
    CASE WHEN whole THEN shortest_ns END AS transfer_ns,
    CASE WHEN whole THEN duration_ns - shortest_ns END AS wait_ns,
    CASE WHEN whole THEN shortest END AS came_last,
    CASE WHEN whole THEN shortest_rank END AS late_rank,
    CASE WHEN whole THEN bus_gbs * duration_ns / nullif(shortest_ns, 0) END AS transfer_bus_gbs
FROM _seen;
