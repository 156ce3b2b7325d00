-- Two hundred bins of the window: the share of each that a stream was busy, and the category that ran longest in it. Shares are sums of
-- fractions, whose last digits differ with the order of adding.
WITH chosen AS (
    SELECT device, stream, category, start_ns, end_ns
    FROM kernels
    WHERE trace = $trace AND timing = 'timeline' AND start_ns IS NOT NULL AND end_ns IS NOT NULL
),

window_of AS (
    SELECT min(start_ns) AS first_ns, greatest(max(end_ns) - min(start_ns), 200) / 200 AS width_ns FROM chosen
),

placed AS (
    SELECT
        'GPU ' || coalesce(device::VARCHAR, '?') || ', stream ' || coalesce(stream::VARCHAR, '?') AS lane,
        category,
        (start_ns - first_ns) / width_ns AS begins,
        (end_ns - first_ns) / width_ns AS ends
    FROM chosen, window_of
),

spread AS (
    SELECT
        lane,
        category,
        bin,
        greatest(0, least(ends, bin + 1) - greatest(begins, bin)) AS share
    FROM (SELECT *, unnest(range(floor(begins)::BIGINT, least(200, floor(ends)::BIGINT + 1))) AS bin FROM placed)
    WHERE bin < 200
),

summed AS (
    SELECT lane, bin, category, sum(share) AS share, count(*) AS n FROM spread GROUP BY lane, bin, category
)

SELECT
    lane,
    bin * width_ns / 1e6 AS from_ms,
    (bin + 1) * width_ns / 1e6 AS to_ms,
    least(1, sum(share)) AS busy,
    arg_max(category, (round(share, 9), category)) AS category,
    sum(n)::BIGINT AS n
FROM summed, window_of
GROUP BY lane, bin, width_ns
ORDER BY lane, bin;
