-- Why each device was idle, and for how long.
--
-- The causes are those of `idle_gaps`, which has every gap.
--
-- Columns:
--   trace, device: as in kernels
--   cause: as in idle_gaps
--   n BIGINT: Number of gaps.
--   idle_ns BIGINT [ns]: Summed length of the gaps.
--   share_pct DOUBLE [%]: Share of the time from the first start to the last end.
--   median_ns DOUBLE [ns]: Median length of a gap.
--   max_ns BIGINT [ns]: Longest gap.
--   host_late_ns BIGINT [ns]: Part of the gaps before the host began the next launch call, summed.
--   waiting_call VARCHAR: Synchronising or allocating call that most often is the cause.
-- Example:
--   SELECT trace, device, cause, n, idle_ns, share_pct FROM idle();
CREATE OR REPLACE MACRO idle(source := 'kernels') AS TABLE
WITH _spans AS (
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
INNER JOIN _spans AS s ON g.trace = s.trace AND g.device IS NOT DISTINCT FROM s.device
GROUP BY g.trace, g.device, g.cause
ORDER BY g.trace, g.device, idle_ns DESC, g.cause;
