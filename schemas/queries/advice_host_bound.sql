-- Of launches one by one; graphs that are launched late have a rule of their own.
-- Shares are of the time of all devices together; each row of `idle` has the share of its own.
WITH spans AS (SELECT device, max(100 * idle_ns / share_pct) AS span_ns FROM found_idle GROUP BY device),

waited AS (
    SELECT sum(idle_ns) AS idle_ns, 100 * sum(idle_ns) / (SELECT sum(span_ns) FROM spans) AS share_pct
    FROM found_idle
    WHERE cause IN ('launch', 'copy')
),

called AS (
    SELECT median(duration_ns) AS median_kernel_ns, median(launch_duration_ns) AS median_call_ns
    FROM kernels
    WHERE trace = $trace AND timing = 'timeline' AND launch_duration_ns IS NOT NULL
    HAVING 2 * count(*) FILTER (launch_status = 'graph' OR graph_id IS NOT NULL) <= count(*)
)

SELECT idle_ns::DOUBLE AS at_stake_ns, idle_ns::DOUBLE AS idle_ns, share_pct, median_kernel_ns, median_call_ns
FROM waited, called
WHERE share_pct >= 10 AND median_call_ns IS NOT NULL;
