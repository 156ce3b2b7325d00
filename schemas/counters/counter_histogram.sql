-- How a hardware counter is distributed over launches, by its canonical name in metrics.
--
-- FROM counter_histogram('selection', 'dram__throughput.avg.pct_of_peak_sustained_elapsed'): the same for a hardware counter, by its canonical name
-- in `metrics`. Of a counter that a launch has several times, the sum over instances goes before a single one, then the most exact value, then the
-- first pass.
--
-- Columns:
--   trace: as in kernels
--   bin INTEGER: Number of the bin; NULL for launches without a value.
--   from_value DOUBLE: Lower bound.
--   to_value DOUBLE: Upper bound.
--   n: as in kernel_rollups
CREATE OR REPLACE MACRO counter_histogram(counter, source := 'kernels', bins := 20, logarithmic := false) AS TABLE
WITH valued AS (
    SELECT k.trace, m.value
    FROM query_table(source) AS k
    LEFT JOIN (
        SELECT
            trace_id,
            launch_index,
            arg_min(value, (instance IS NOT NULL, coalesce(precision, 0), pass, instance, value)) AS value
        FROM launch_metrics
        WHERE metric = counter
        GROUP BY trace_id, launch_index
    ) AS m ON k.trace_id = m.trace_id AND k.launch_index = m.launch_index
)

SELECT * FROM _value_histogram('valued', bins := bins, logarithmic := logarithmic);
