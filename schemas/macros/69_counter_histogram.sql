-- FROM counter_histogram('selection', 'dram__throughput.avg.pct_of_peak_sustained_elapsed'): the same for a hardware counter, by its
-- canonical name in `metrics`.
CREATE OR REPLACE MACRO counter_histogram(source, counter, bins := 20, logarithmic := false) AS TABLE
WITH valued AS (
    SELECT k.trace, m.value
    FROM query_table(source) AS k
    LEFT JOIN (
        SELECT trace_id, launch_index, any_value(value) AS value FROM metrics WHERE metric = counter GROUP BY ALL
    ) AS m ON k.trace_id = m.trace_id AND k.launch_index = m.launch_index
),

scaled AS (
    SELECT trace, value, CASE WHEN NOT logarithmic THEN value WHEN value > 0 THEN log2(value) END AS position FROM valued
),

ranged AS (
    SELECT trace, min(position) AS low, max(position) AS high FROM scaled GROUP BY trace
),

binned AS (
    SELECT
        s.trace,
        r.low,
        CASE WHEN r.high > r.low THEN (r.high - r.low) / bins ELSE 1 END AS width,
        CASE
            WHEN s.position IS NULL THEN NULL
            WHEN r.high > r.low THEN least(bins - 1, floor((s.position - r.low) / (r.high - r.low) * bins))::INTEGER
            ELSE 0
        END AS bin
    FROM scaled AS s
    INNER JOIN ranged AS r USING (trace)
)

SELECT
    trace,
    bin,
    CASE WHEN logarithmic THEN 2 ** (low + bin * width) ELSE low + bin * width END AS from_value,
    CASE WHEN logarithmic THEN 2 ** (low + (bin + 1) * width) ELSE low + (bin + 1) * width END AS to_value,
    count(*) AS n
FROM binned
GROUP BY ALL
ORDER BY trace, bin NULLS LAST;
