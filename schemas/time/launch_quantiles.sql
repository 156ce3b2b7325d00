-- The exact median and tail of the durations of each signature.
--
-- From single launches, so of any relation like `kernels`: `FROM launch_quantiles('selection')`. `signature_quantiles` answers faster, and less
-- exactly. Between two durations a quantile is interpolated: of few launches that differ much, it is far from all of them.
--
-- Columns:
--   trace: as in kernels
--   timing: as in kernel_rollups
--   signature_id: as in signatures
--   n BIGINT: Number of launches that have a duration.
--   p50_ns DOUBLE [ns]: 50 % of the launches take no longer.
--   p90_ns DOUBLE [ns]: 90 % of the launches take no longer.
--   p95_ns DOUBLE [ns]: 95 % of the launches take no longer.
--   p99_ns DOUBLE [ns]: 99 % of the launches take no longer.
-- Example:
--   SELECT trace, signature_id, n, p50_ns, p99_ns FROM launch_quantiles() ORDER BY p99_ns DESC LIMIT 10;
CREATE OR REPLACE MACRO launch_quantiles(source := 'kernels') AS TABLE
SELECT
    trace,
    timing,
    signature_id,
    count(duration_ns) AS n,
    quantile_cont(duration_ns, 0.5) AS p50_ns,
    quantile_cont(duration_ns, 0.9) AS p90_ns,
    quantile_cont(duration_ns, 0.95) AS p95_ns,
    quantile_cont(duration_ns, 0.99) AS p99_ns
FROM query_table(source)
GROUP BY trace, timing, signature_id
ORDER BY trace, timing, signature_id;
