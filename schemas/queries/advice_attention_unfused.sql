-- Softmax in kernels of its own: of the wall time where there is a timeline, else of the GPU time.
WITH softmax AS (FROM found_places WHERE part = 'computation' AND category = 'SOFTMAX'),

summed AS (
    SELECT sum(wall_ns) AS total_ns, sum(n) AS n, 100 * sum(wall_ns) / any_value(span_ns) AS share_pct FROM softmax
    UNION ALL
    SELECT sum(total_ns), sum(n), sum(share_pct)
    FROM time_by('category')
    WHERE trace = $trace AND timing <> 'profiled' AND category = 'SOFTMAX' AND NOT EXISTS (FROM found_places)
)

SELECT s.total_ns::DOUBLE AS at_stake_ns, s.n::BIGINT AS n, s.total_ns::DOUBLE AS total_ns, s.share_pct, p.line, p.module
FROM summed AS s
CROSS JOIN _main_place('softmax') AS p
WHERE s.share_pct >= 1 AND s.n >= 10;
