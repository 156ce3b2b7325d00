-- How recorded collectives compare with replayed ones, by job, operation, type, size and group.
--
-- Means over the instances that all traced ranks show. A replay lasts as long as its shortest rank, so it is held to the recorded transfer, not to
-- launches that waited. Bus bandwidth as in nccl-tests, of the mean times.
--
-- Columns:
--   job: as in collective_instances
--   gpu VARCHAR: GPU of the trace; replays on the same kind count.
--   operation, dtype, bytes: as in collective_launches
--   group_size: as in kernels
--   n BIGINT: Number of launches, of all ranks.
--   matched: as in collective_waits
--   total_ns BIGINT [ns]: Recorded time of all launches.
--   transfer_ns BIGINT [ns]: Part of the time of the matched launches that is transfer: the shortest launch of an instance, for each of its launches.
--   wait_ns BIGINT [ns]: Part of it that is waiting for other ranks.
--   mean_transfer_ns DOUBLE [ns]: Mean recorded transfer.
--   transfer_bus_gbs DOUBLE [GB/s]: Bus bandwidth of the recorded transfer.
--   replay_grade VARCHAR: L0 or L1, where a replay counts; the lower one.
--   mean_replayed_ns DOUBLE [ns]: Mean replayed time, which is that of the shortest rank.
--   replayed_bus_gbs DOUBLE [GB/s]: Bus bandwidth of the replay.
--   error_pct DOUBLE [%]: Replayed against recorded transfer of the same collectives.
--   reason: as in reconciliation_kernels
-- Example:
--   SELECT job, operation, bytes, n, mean_transfer_ns, mean_replayed_ns, error_pct, reason FROM collective_replays();
CREATE OR REPLACE MACRO collective_replays(source := 'kernels') AS TABLE
WITH _named AS (
    SELECT trace_id, arg_min(name, (device, name)) AS gpu FROM devices GROUP BY trace_id
),

_recorded AS (
    SELECT
        i.job,
        n.gpu,
        i.operation,
        i.dtype,
        i.bytes,
        i.group_size,
        i.signature_id,
        count(*) AS n,
        count(i.transfer_ns) AS matched,
        sum(i.duration_ns) AS total_ns,
        sum(i.transfer_ns) AS transfer_ns,
        sum(i.wait_ns) AS wait_ns,
        max(i.transfer_bus_gbs * i.transfer_ns / i.bytes) AS bus_factor
    FROM collective_instances(source) AS i
    LEFT JOIN _named AS n USING (trace_id)
    GROUP BY ALL
),

_told AS (
    SELECT
        *,
        min(bytes) OVER same < max(bytes) OVER same OR min(group_size) OVER same < max(group_size) OVER same AS several
    FROM _recorded
    WINDOW same AS (PARTITION BY signature_id)
),

_replayed AS (
    SELECT
        t.* EXCLUDE (several),
        c.grade,
        CASE WHEN NOT coalesce(t.several, false) THEN c.mean_ns END AS mean_ns,
        CASE
            WHEN c.signature_id IS NULL THEN 'not replayed'
            WHEN t.several AND c.mean_ns IS NOT NULL
                THEN 'one signature has several sizes (recorded without shapes): its replays are a mean over them'
            ELSE c.reason
        END AS reason
    FROM _told AS t
    LEFT JOIN _reconciliation_replays AS c ON t.signature_id = c.signature_id AND t.gpu = c.gpu
)

SELECT
    job,
    gpu,
    operation,
    dtype,
    bytes,
    group_size,
    sum(n)::BIGINT AS n,
    sum(matched)::BIGINT AS matched,
    try_cast(sum(total_ns) AS BIGINT) AS total_ns,
    try_cast(sum(transfer_ns) AS BIGINT) AS transfer_ns,
    try_cast(sum(wait_ns) AS BIGINT) AS wait_ns,
    sum(transfer_ns) / nullif(sum(matched), 0) AS mean_transfer_ns,
    max(bus_factor) * bytes / mean_transfer_ns AS transfer_bus_gbs,
    max(grade) AS replay_grade,
    sum(matched * mean_ns) / sum(matched) FILTER (mean_ns IS NOT NULL) AS mean_replayed_ns,
    max(bus_factor) * bytes / mean_replayed_ns AS replayed_bus_gbs,
    100 * (sum(matched * mean_ns) / sum(transfer_ns) FILTER (mean_ns IS NOT NULL) - 1) AS error_pct,
    min(reason) AS reason
FROM _replayed
GROUP BY job, gpu, operation, dtype, bytes, group_size
ORDER BY total_ns DESC, job, operation, bytes, gpu, dtype, group_size;
