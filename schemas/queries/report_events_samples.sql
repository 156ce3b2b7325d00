-- Counters in a stretch of a trace, memory and power among them: of several values in a ten-thousandth of it the largest; the last one before
-- it, too.
WITH _chosen AS (
    SELECT trace_id FROM traces WHERE name = $trace
),

_binned AS (
    SELECT *, CASE WHEN ts_ns >= $first_ns THEN (ts_ns - $first_ns) // greatest(1, ($last_ns - $first_ns) // 10000) ELSE -1 END AS bin
    FROM _counter_values('_chosen')
    WHERE ts_ns < $last_ns
)

SELECT
    name,
    CASE WHEN bin < 0 THEN max(ts_ns) ELSE min(ts_ns) END AS ts_ns,
    CASE WHEN bin < 0 THEN arg_max(value, ts_ns) ELSE max(value) END AS value,
    any_value(unit) AS unit
FROM _binned
GROUP BY name, bin
ORDER BY name, ts_ns;
