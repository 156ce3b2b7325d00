-- How many kernels have each verdict, and their times; what lost most time comes first.
SELECT
    verdict,
    count(*) AS n,
    sum(total_before_ns)::BIGINT AS total_before_ns,
    sum(total_after_ns)::BIGINT AS total_after_ns,
    sum(delta_ns)::BIGINT AS delta_ns
FROM diff($before, $after, threshold := $threshold)
GROUP BY verdict
ORDER BY delta_ns DESC, verdict;
