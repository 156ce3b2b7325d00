-- Where most launches are part of graphs, the host is late with whole graphs.
WITH launched AS (
    SELECT count(DISTINCT api_index) AS graphs, count(*) AS n
    FROM kernels
    WHERE trace = $trace AND timing = 'timeline' AND (launch_status = 'graph' OR graph_id IS NOT NULL)
    HAVING 2 * count(*) > (SELECT count(*) FROM kernels WHERE trace = $trace AND timing = 'timeline' AND launch_duration_ns IS NOT NULL)
),

waited AS (
    SELECT sum(idle_ns)::DOUBLE AS idle_ns, 100 * sum(idle_ns) / (SELECT sum(span_ns) FROM found_gpu_time) AS share_pct
    FROM found_idle
    WHERE cause IN ('launch', 'copy')
)

SELECT idle_ns AS at_stake_ns, idle_ns, share_pct, graphs, n
FROM waited, launched
WHERE share_pct >= 10;
