-- How often the launches of `selection` that have the signature $signature_id took how long: $bins bins of equal ratio between the
-- shortest and the longest, with the shortest and longest duration in each. 0 ns has no logarithm and stands with 1 ns.
WITH timed AS (
    SELECT duration_ns, greatest(duration_ns, 1) AS ns FROM selection WHERE signature_id = $signature_id AND duration_ns IS NOT NULL
),

ranged AS (
    SELECT log2(min(ns)) AS low, greatest((log2(max(ns)) - log2(min(ns))) / $bins, 1e-9) AS width FROM timed
)

SELECT
    least(floor((log2(t.ns) - r.low) / r.width), $bins - 1)::INTEGER AS bin,
    min(t.duration_ns) AS min_ns,
    max(t.duration_ns) AS max_ns,
    count(*) AS n
FROM timed AS t
CROSS JOIN ranged AS r
GROUP BY bin
ORDER BY bin;
