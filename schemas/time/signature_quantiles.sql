-- The median and the tail of the durations of each signature, at most 2.2 % off a duration that occurred.
--
-- From the histograms of `kernel_rollups`, which add up over streams and phases. A value is the middle of the bin of the launch at that place, a factor
-- of 2^(1/32) off at most. `launch_quantiles` computes with every launch, and interpolates.
--
-- Columns:
--   trace: as in kernels
--   timing: as in kernel_rollups
--   signature_id: as in signatures
--   n, p50_ns, p90_ns, p95_ns, p99_ns: as in launch_quantiles
-- Example:
--   SELECT trace, signature_id, n, p50_ns, p99_ns FROM signature_quantiles ORDER BY p99_ns DESC LIMIT 10;
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
