-- What each profiled launch moves, a row per memory level. `launched` names a relation as of `_roofline_work`. peak, achieved: bytes per second;
-- total: bytes.
CREATE OR REPLACE MACRO _roofline_traffic(launched) AS TABLE
SELECT
    trace_id,
    launch_index,
    'dram' AS level,
    m['dram__bytes.sum.peak_sustained'] * m['dram__cycles_elapsed.avg.per_second'] AS peak,
    m['dram__bytes.sum.per_second'] AS achieved,
    coalesce(
        coalesce(m['dram__bytes_read.sum'], m['dram__bytes_op_read.sum'])
        + coalesce(m['dram__bytes_write.sum'], m['dram__bytes_op_write.sum']),
        m['dram__bytes.sum']
    ) AS total,
    m['gpu__time_duration.sum'] AS duration_ns
FROM query_table(launched)
UNION ALL
SELECT
    trace_id,
    launch_index,
    'l2' AS level,
    coalesce(
        m['derived__lts__lts2xbar_bytes.sum.peak_sustained'], 32 * m['lts__lts2xbar_cycles_active.sum.peak_sustained']
    ) * m['lts__cycles_elapsed.avg.per_second'] AS peak,
    coalesce(m['derived__lts__lts2xbar_bytes.sum.per_second'], 32 * m['lts__lts2xbar_cycles_active.sum.per_second']) AS achieved,
    NULL AS total,
    m['gpu__time_duration.sum'] AS duration_ns
FROM query_table(launched)
UNION ALL
SELECT
    trace_id,
    launch_index,
    'l1' AS level,
    128 * coalesce(
        m['l1tex__lsu_writeback_active_mem_lgds.sum.peak_sustained'],
        m['l1tex__lsu_writeback_active_mem_lg.sum.peak_sustained'],
        m['l1tex__lsu_writeback_active.sum.peak_sustained']
    ) * m['l1tex__cycles_elapsed.avg.per_second'] AS peak,
    128 * coalesce(
        m['l1tex__lsu_writeback_active_mem_lgds.sum.per_second'],
        m['l1tex__lsu_writeback_active_mem_lg.sum.per_second'],
        m['l1tex__lsu_writeback_active.sum.per_second']
    ) AS achieved,
    NULL AS total,
    m['gpu__time_duration.sum'] AS duration_ns
FROM query_table(launched);
