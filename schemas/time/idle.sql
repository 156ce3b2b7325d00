-- Idle time of each device by cause; see idle_gaps.
--
-- Idle time of each device by cause: see idle_gaps. Shares are of the time from the first start to the last end.
--
-- Columns:
--   trace: as in kernels
--   device INTEGER: Device number.
--   cause VARCHAR: launch: the GPU waited for the host to launch; sync: the host had waited, for at least half of that time, in a synchronising call
--     of its thread that began before the gap; allocation: the same for cudaMalloc or cudaFree; copy: the GPU waited for the host to begin a copy;
--     queued: the launch had been made; unknown: no launch call is known.
--   n: as in kernel_rollups
--   idle_ns BIGINT [ns]: Summed length of the gaps.
--   share_pct DOUBLE [%]: Share of the time from the first start to the last end.
--   median_ns DOUBLE [ns]: Median.
--   max_ns BIGINT [ns]: Longest.
--   host_late_ns BIGINT [ns]: How long after the begin of the gap that was.
--   waiting_call VARCHAR: Synchronising or allocating call that reached into the gap, where it is the cause (summed: the most frequent one).
CREATE OR REPLACE MACRO idle(source := 'kernels') AS TABLE
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
