-- Why each device was idle, and for how long: the parts of `wall_time_budget` in which nothing ran.
--
-- Columns:
--   trace, device: as in kernels
--   part: as in idle_gaps
--   cause: as in idle_gaps
--   n BIGINT: Number of pieces of idle time: a gap is cut at each call of the host that held it up.
--   idle_ns BIGINT [ns]: Their summed length.
--   share_pct DOUBLE [%]: Share of the time from the first start to the last end.
--   median_ns DOUBLE [ns]: Median length of a piece.
--   max_ns BIGINT [ns]: Longest piece.
--   waiting_call VARCHAR: Call of the host that is the cause for most of the time.
-- Example:
--   SELECT trace, device, part, cause, n, idle_ns, share_pct FROM idle();
CREATE OR REPLACE MACRO idle(source := 'kernels') AS TABLE
WITH _pieces AS MATERIALIZED (FROM _wall_pieces(source) WHERE part IN ('host', 'queue', 'unattributed')),

_called AS (
    SELECT trace, device, part, cause, arg_min(call, (-ns, call)) AS waiting_call
    FROM (SELECT trace, device, part, cause, call, sum(duration_ns) AS ns FROM _pieces WHERE call IS NOT NULL GROUP BY ALL)
    GROUP BY ALL
),

_spans AS (
    SELECT trace, device, max(end_ns) - min(start_ns) AS span_ns
    FROM query_table(source)
    WHERE timing = 'timeline'
    GROUP BY trace, device
)

SELECT
    g.trace,
    g.device,
    g.part,
    g.cause,
    count(*) AS n,
    try_cast(sum(g.duration_ns) AS BIGINT) AS idle_ns,
    100 * sum(g.duration_ns) / nullif(any_value(s.span_ns), 0) AS share_pct,
    median(g.duration_ns) AS median_ns,
    max(g.duration_ns) AS max_ns,
    any_value(c.waiting_call) AS waiting_call
FROM _pieces AS g
INNER JOIN _spans AS s ON g.trace = s.trace AND g.device IS NOT DISTINCT FROM s.device
LEFT JOIN _called AS c ON g.trace = c.trace AND g.device IS NOT DISTINCT FROM c.device AND g.part = c.part AND g.cause = c.cause
GROUP BY g.trace, g.device, g.part, g.cause
ORDER BY g.trace, g.device, idle_ns DESC, g.cause;
