-- Idle time of each device by cause: see idle_gaps. Shares are of the time from the first start to the last end.
CREATE OR REPLACE MACRO idle(source) AS TABLE
WITH spans AS (
    SELECT trace, device, max(end_ns) - min(start_ns) AS span_ns
    FROM query_table(source)
    WHERE timing = 'timeline'
    GROUP BY trace, device
)

SELECT
    g.trace,
    g.device,
    g.cause,
    count(*) AS n,
    try_cast(sum(g.gap_ns) AS BIGINT) AS idle_ns,
    100 * sum(g.gap_ns) / nullif(any_value(s.span_ns), 0) AS share_pct,
    median(g.gap_ns) AS median_ns,
    max(g.gap_ns) AS max_ns,
    try_cast(sum(g.host_late_ns) AS BIGINT) AS host_late_ns,
    mode(g.waiting_call ORDER BY g.waiting_call) FILTER (g.waiting_call IS NOT NULL) AS waiting_call
FROM idle_gaps(source) AS g
INNER JOIN spans AS s ON g.trace = s.trace AND g.device IS NOT DISTINCT FROM s.device
GROUP BY g.trace, g.device, g.cause
ORDER BY g.trace, g.device, idle_ns DESC, g.cause;
