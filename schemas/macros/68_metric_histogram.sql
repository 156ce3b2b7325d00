-- FROM metric_histogram('selection', 'duration_ns'): how a numeric column of `kernels` is distributed, in bins of equal width on a linear
-- scale or, with `logarithmic`, of equal ratio. Launches without a value are counted in a row without bounds.
CREATE OR REPLACE MACRO metric_histogram(source, metric, bins := 20, logarithmic := false) AS TABLE
WITH valued AS (
    SELECT trace, COLUMNS(lambda c: c = metric)::DOUBLE AS value FROM query_table(source)
)

SELECT * FROM value_histogram('valued', bins := bins, logarithmic := logarithmic);
