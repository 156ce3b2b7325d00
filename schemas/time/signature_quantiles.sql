-- Quantiles of durations by signature and trace, from histograms: at most 2.2 % off.
--
-- Quantiles from the histograms of the rollups, which add up over streams and phases. A value is the middle of its bin, 2.2 % off at most (2^(1/32));
-- `launch_quantiles('kernels')` has exact ones.
--
-- Columns:
--   trace: as in kernels
--   timing: as in kernel_rollups
--   signature_id: as in signatures
--   n BIGINT: Number of launches that have a duration.
--   p50_ns DOUBLE [ns]: Median duration.
--   p90_ns DOUBLE [ns]: 90 % of the launches take no longer.
--   p95_ns DOUBLE [ns]: 95 % of the launches take no longer.
--   p99_ns DOUBLE [ns]: 99 % of the launches take no longer.
CREATE OR REPLACE VIEW signature_quantiles AS
WITH bins AS (
    SELECT trace, timing, signature_id, min_ns, max_ns, unnest(map_keys(histogram)) AS bin, unnest(map_values(histogram)) AS n
    FROM kernel_rollups
),

merged AS (
    SELECT trace, timing, signature_id, bin, min(min_ns) AS min_ns, max(max_ns) AS max_ns, sum(n)::BIGINT AS n
    FROM bins
    GROUP BY trace, timing, signature_id, bin
),

ranked AS (
    SELECT
        *,
        sum(n) OVER (PARTITION BY trace, timing, signature_id ORDER BY bin) AS upto,
        sum(n) OVER (PARTITION BY trace, timing, signature_id) AS total
    FROM merged
)

SELECT
    trace,
    timing,
    signature_id,
    sum(n)::BIGINT AS n,
    least(max(max_ns), greatest(min(min_ns), 2 ** ((min(bin) FILTER (upto >= 0.5 * total) + 0.5) / 16))) AS p50_ns,
    least(max(max_ns), greatest(min(min_ns), 2 ** ((min(bin) FILTER (upto >= 0.9 * total) + 0.5) / 16))) AS p90_ns,
    least(max(max_ns), greatest(min(min_ns), 2 ** ((min(bin) FILTER (upto >= 0.95 * total) + 0.5) / 16))) AS p95_ns,
    least(max(max_ns), greatest(min(min_ns), 2 ** ((min(bin) FILTER (upto >= 0.99 * total) + 0.5) / 16))) AS p99_ns
FROM ranked
GROUP BY trace, timing, signature_id;
