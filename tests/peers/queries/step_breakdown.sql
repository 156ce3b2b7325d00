-- Every moment of a step belongs to the first of the classes that runs then; averaged over the steps. The classes and their order are
-- those of tb_plugin's ProfileRole.
WITH activities AS (
    SELECT
        start_ns,
        end_ns,
        CASE
            WHEN category = 'COMMUNICATION' THEN 4
            WHEN kind = 'kernel' THEN 1
            WHEN kind = 'memcpy' THEN 2
            WHEN kind = 'memset' THEN 3
        END AS class
    FROM kernels
    WHERE trace = $trace
    UNION ALL
    SELECT a.start_ns, a.start_ns + a.duration_ns, 5
    FROM api_calls AS a
    INNER JOIN traces AS t USING (trace_id)
    WHERE t.name = $trace
    UNION ALL
    SELECT o.start_ns, o.start_ns + o.duration_ns, CASE WHEN o.name LIKE 'enumerate(DataLoader)#%' THEN 6 ELSE 7 END
    FROM ops AS o
    INNER JOIN traces AS t USING (trace_id)
    WHERE t.name = $trace AND o.name NOT LIKE 'ProfilerStep#%'
),

edges AS (
    SELECT start_ns AS at_ns, class, 1 AS change FROM activities
    UNION ALL
    SELECT end_ns, class, -1 FROM activities
    UNION ALL
    SELECT unnest([start_ns, end_ns]), 0, 0 FROM profiler_steps($trace)
),

running AS (
    SELECT
        at_ns,
        sum(sum(change) FILTER (class = 1)) OVER upto AS kernels,
        sum(sum(change) FILTER (class = 2)) OVER upto AS copies,
        sum(sum(change) FILTER (class = 3)) OVER upto AS fills,
        sum(sum(change) FILTER (class = 4)) OVER upto AS communication,
        sum(sum(change) FILTER (class = 5)) OVER upto AS calls,
        sum(sum(change) FILTER (class = 6)) OVER upto AS loading,
        sum(sum(change) FILTER (class = 7)) OVER upto AS operators,
        lead(at_ns) OVER (ORDER BY at_ns) AS next_ns
    FROM edges
    GROUP BY at_ns
    WINDOW upto AS (ORDER BY at_ns)
),

moments AS (
    SELECT
        CASE
            WHEN running.kernels > 0 THEN 'Kernel'
            WHEN running.copies > 0 THEN 'Memcpy'
            WHEN running.fills > 0 THEN 'Memset'
            WHEN running.communication > 0 THEN 'Communication'
            WHEN running.calls > 0 THEN 'Runtime'
            WHEN running.loading > 0 THEN 'DataLoader'
            WHEN running.operators > 0 THEN 'CPU Exec'
            ELSE 'Other'
        END AS class,
        running.next_ns - running.at_ns AS duration_ns
    FROM running
    INNER JOIN profiler_steps($trace) AS steps ON running.at_ns >= steps.start_ns AND running.next_ns <= steps.end_ns
),

step_count AS (
    SELECT count(*) AS steps FROM profiler_steps($trace)
)

SELECT coalesce(class, 'Average Step Time') AS class, sum(duration_ns) / 1000 / any_value(steps) AS us
FROM moments
CROSS JOIN step_count
GROUP BY GROUPING SETS ((class), ());
