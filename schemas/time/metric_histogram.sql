-- How a numeric column of kernels is distributed, in bins of equal width or, with logarithmic, of equal ratio.
--
-- FROM metric_histogram('selection', 'duration_ns'): how a numeric column of `kernels` is distributed, in bins of equal width on a linear scale or,
-- with `logarithmic`, of equal ratio. Launches without a value are counted in a row without bounds.
--
-- Columns:
--   trace: as in kernels
--   bin INTEGER: Number of the bin; NULL for launches without a value.
--   from_value DOUBLE: Lower bound.
--   to_value DOUBLE: Upper bound.
--   n: as in kernel_rollups
CREATE OR REPLACE MACRO metric_histogram(metric, source := 'kernels', bins := 20, logarithmic := false) AS TABLE
WITH valued AS (
    SELECT trace, COLUMNS(lambda c: c = metric)::DOUBLE AS value FROM query_table(source)
)

SELECT * FROM _value_histogram('valued', bins := bins, logarithmic := logarithmic);
