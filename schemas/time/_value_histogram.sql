-- FROM _value_histogram('valued'): how the column `value` of a relation is distributed per `trace`, in bins of equal width on a linear scale or, with
-- `logarithmic`, of equal ratio. Rows without a value are counted in a row without bounds.
CREATE OR REPLACE MACRO _value_histogram(source, bins := 20, logarithmic := false) AS TABLE
WITH _scaled AS (
    SELECT trace, value, CASE WHEN NOT logarithmic THEN value WHEN value > 0 THEN log2(value) END AS position
    FROM query_table(
        CASE WHEN bins >= 1 AND bins = floor(bins) THEN source ELSE error('bins has to be a whole number from 1 on, not ' || bins) END
    )
),

_ranged AS (
    SELECT trace, min(position) AS low, max(position) AS high FROM _scaled GROUP BY trace
),

_binned AS (
    SELECT
        s.trace,
        r.low,
        CASE WHEN r.high > r.low THEN (r.high - r.low) / bins ELSE 1 END AS width,
        CASE
            WHEN s.position IS NULL THEN NULL
            WHEN r.high > r.low THEN least(bins - 1, floor((s.position - r.low) / (r.high - r.low) * bins))::INTEGER
            ELSE 0
        END AS bin
    FROM _scaled AS s
    INNER JOIN _ranged AS r USING (trace)
)

SELECT
    trace,
    bin,
    CASE WHEN logarithmic THEN 2 ** (low + bin * width) ELSE low + bin * width END AS from_value,
    CASE WHEN logarithmic THEN 2 ** (low + (bin + 1) * width) ELSE low + (bin + 1) * width END AS to_value,
    count(*) AS n
FROM _binned
GROUP BY ALL
ORDER BY trace, bin NULLS LAST;
