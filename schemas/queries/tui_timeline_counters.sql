-- Counters of a stretch of the axis, memory and power among them: the largest value in each bin of $step_ns, the last one before it
-- as bin -1; without a bin, of the whole trace.
WITH placed AS (
    SELECT
        unnest($traces::VARCHAR[]) AS trace_id,
        unnest($shifts::BIGINT[]) AS shift_ns,
        unnest($numbers::USMALLINT[]) AS number
)

SELECT
    p.number,
    f.name,
    f.unit,
    CASE WHEN f.ts_ns + p.shift_ns < $last_ns THEN greatest(-1, floor((f.ts_ns + p.shift_ns - $first_ns) / $step_ns))::BIGINT END AS bin,
    CASE WHEN bin < 0 THEN arg_max(f.value, f.ts_ns) ELSE max(f.value) END AS value
FROM _counter_values('placed') AS f
INNER JOIN placed AS p USING (trace_id)
GROUP BY GROUPING SETS ((p.number, f.name, f.unit, bin), (p.number, f.name, f.unit))
ORDER BY p.number, f.name, grouping(bin) DESC, bin;
