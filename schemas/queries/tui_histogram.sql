-- How often the launches of `selection` that have the signature $signature_id took how long: $bins bins of equal ratio between the
-- shortest and the longest. Bounds in ns; a bin holds from_ns <= duration < to_ns, and the last one also the longest.
WITH timed AS (
    SELECT greatest(duration_ns, 1) AS ns FROM selection WHERE signature_id = $signature_id AND duration_ns IS NOT NULL
),

ranged AS (
    SELECT log2(min(ns)) AS low, greatest((log2(max(ns)) - log2(min(ns))) / $bins, 1e-9) AS width FROM timed
)

SELECT
    least(floor((log2(t.ns) - r.low) / r.width), $bins - 1)::INTEGER AS bin,
    any_value(2 ** (r.low + least(floor((log2(t.ns) - r.low) / r.width), $bins - 1) * r.width)) AS from_ns,
    min(t.ns) AS min_ns,
    max(t.ns) AS max_ns,
    count(*) AS n
FROM timed AS t
CROSS JOIN ranged AS r
GROUP BY bin
ORDER BY bin;
