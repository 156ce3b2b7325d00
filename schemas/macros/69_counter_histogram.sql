-- FROM counter_histogram('selection', 'dram__throughput.avg.pct_of_peak_sustained_elapsed'): the same for a hardware counter, by its
-- canonical name in `metrics`.
CREATE OR REPLACE MACRO counter_histogram(source, counter, bins := 20, logarithmic := false) AS TABLE
WITH valued AS (
    SELECT k.trace, m.value
    FROM query_table(source) AS k
    LEFT JOIN (
        SELECT trace_id, launch_index, any_value(value) AS value FROM metrics WHERE metric = counter GROUP BY ALL
    ) AS m ON k.trace_id = m.trace_id AND k.launch_index = m.launch_index
)

SELECT * FROM value_histogram('valued', bins := bins, logarithmic := logarithmic);
