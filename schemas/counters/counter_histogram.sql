-- How a hardware counter is distributed over launches.
--
-- Of a counter that a launch has several times, the sum over instances goes before a single one, then the most exact value, then the first pass.
--
-- Arguments:
--   counter: name of the counter, as in `metrics`.
--   bins: number of bins; they are of equal width.
--   logarithmic: whether they are of equal ratio instead.
-- Columns:
--   trace, bin, from_value, to_value, n: as in metric_histogram
-- Example:
--   FROM counter_histogram('gpu__time_duration.sum', source := 'all_launches', bins := 8);
CREATE OR REPLACE MACRO counter_histogram(counter, source := 'kernels', bins := 20, logarithmic := false) AS TABLE
WITH _valued AS (
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

SELECT * FROM _value_histogram('_valued', bins := bins, logarithmic := logarithmic);
