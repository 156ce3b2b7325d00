-- What each profiled launch computes: a row per precision of vector instructions, and one per type of tensor operation that ran. `launched` names a
-- relation with trace, trace_id, launch_index and `m`, the map of its counters.
--
-- peak, achieved: operations per second; a peak is operations per cycle times the clock. total: operations. A factor that a version of ncu has as a
-- metric of its own (derived__…) is taken from there: newer ones count a half FMA as 4 operations, older ones as 2.
CREATE OR REPLACE MACRO _roofline_work(launched) AS TABLE
SELECT
    trace,
    trace_id,
    launch_index,
    precision,
    letter || 'fma' AS operation,
    coalesce(
        m['derived__sm__' || executed || 'fma_pred_on_x4'],
        m['derived__sm__' || executed || 'fma_pred_on_x2'],
        2 * m['sm__' || executed || 'fma_pred_on.sum.peak_sustained']
    ) * m['sm__cycles_elapsed.avg.per_second'] AS peak,
    (
        coalesce(
            m['derived__smsp__' || executed || 'add_pred_on_x2'], m['smsp__' || executed || 'add_pred_on.sum.per_cycle_elapsed']
        )
        + coalesce(
            m['derived__smsp__' || executed || 'mul_pred_on_x2'], m['smsp__' || executed || 'mul_pred_on.sum.per_cycle_elapsed']
        )
        + coalesce(
            m['derived__smsp__' || executed || 'fma_pred_on_x4'],
            m['derived__smsp__' || executed || 'fma_pred_on_x2'],
            2 * m['smsp__' || executed || 'fma_pred_on.sum.per_cycle_elapsed']
        )
    ) * m['smsp__cycles_elapsed.avg.per_second'] AS achieved,
    coalesce(m['smsp__' || executed || 'add_pred_on.sum'], m['sm__' || executed || 'add_pred_on.sum'])
    + coalesce(m['smsp__' || executed || 'mul_pred_on.sum'], m['sm__' || executed || 'mul_pred_on.sum'])
    + 2 * coalesce(m['smsp__' || executed || 'fma_pred_on.sum'], m['sm__' || executed || 'fma_pred_on.sum']) AS total
FROM query_table(launched)
CROSS JOIN (
    SELECT precision, letter, 'sass_thread_inst_executed_op_' || letter AS executed
    FROM (VALUES ('single', 'f'), ('double', 'd'), ('half', 'h')) AS types (precision, letter)
)
UNION ALL
-- These metrics count operations, not instructions.
SELECT
    trace,
    trace_id,
    launch_index,
    'tensor' AS precision,
    operation,
    m['sm__ops_path_tensor_' || operation || '.sum.peak_sustained'] * m['sm__cycles_elapsed.avg.per_second'] AS peak,
    coalesce(
        m['sm__ops_path_tensor_' || operation || '.sum.per_cycle_elapsed'] * m['sm__cycles_elapsed.avg.per_second'],
        m['sm__ops_path_tensor_' || operation || '.sum.per_second']
    ) AS achieved,
    m['sm__ops_path_tensor_' || operation || '.sum'] AS total
FROM (
    SELECT
        *,
        unnest(list_distinct(list_transform(
            list_filter(map_keys(m), lambda name: starts_with(name, 'sm__ops_path_tensor_') AND m[name] > 0),
            lambda name: regexp_extract(name, '^sm__ops_path_tensor_(\w+)\.sum(\.per_cycle_elapsed|\.per_second)?$', 1)
        ))) AS operation
    FROM query_table(launched)
) AS typed
WHERE operation <> '';
