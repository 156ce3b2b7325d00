-- The ten conversions that take longest, and in each row the sums of all of them.
WITH chosen AS (FROM kernels WHERE trace = $trace)

SELECT *, sum(n) OVER ()::BIGINT AS all_n, try_cast(sum(total_ns) OVER () AS BIGINT) AS all_total_ns
FROM precision_conversions('chosen')
ORDER BY total_ns DESC, from_dtype, to_dtype, phase, method
LIMIT 10;
