-- How a numeric column of `kernels` is distributed in each trace.
--
-- Launches without a value are counted in a row without bounds.
--
-- Arguments:
--   metric: the column, such as duration_ns or gbs.
--   bins: how many bins there are.
--   logarithmic: bins of equal ratio instead of equal width; values have to be above 0.
-- Columns:
--   trace: as in kernels
--   bin INTEGER: Number of the bin, from 0 on; NULL for launches without a value, or, of a logarithmic histogram, without one above 0.
--   from_value DOUBLE: Lower bound.
--   to_value DOUBLE: Upper bound.
--   n: as in kernel_rollups
-- Example:
--   FROM metric_histogram('duration_ns', bins := 10, logarithmic := true);
CREATE OR REPLACE MACRO metric_histogram(metric, source := 'kernels', bins := 20, logarithmic := false) AS TABLE
WITH _valued AS (
    SELECT trace, COLUMNS(lambda c: c = metric)::DOUBLE AS value FROM query_table(source)
)

SELECT * FROM _value_histogram('_valued', bins := bins, logarithmic := logarithmic);
