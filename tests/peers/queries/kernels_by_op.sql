SELECT
    count(*) AS count,
    sum(duration_ns) / 1000 AS sum_us,
    min(duration_ns) / 1000 AS min_us,
    max(duration_ns) / 1000 AS max_us
FROM kernels
WHERE trace = $trace AND name = $kernel AND stream = $stream AND coalesce(op, '') = $op
HAVING count(*) > 0;
