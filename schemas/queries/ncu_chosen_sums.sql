-- The same where only sums are known: the $top kernels by name.
SELECT
    any_value(name) AS name,
    any_value(short_name) AS short_name,
    name_id AS launch,
    sum(n)::BIGINT AS n,
    try_cast(sum(total_ns) AS BIGINT) AS total_ns,
    100 * sum(total_ns) / nullif(sum(sum(total_ns)) OVER (), 0) AS share_pct
FROM sums
WHERE timing <> 'profiled' AND kind = 'kernel'
GROUP BY name_id
HAVING count(total_ns) > 0
QUALIFY bool_and(category IS DISTINCT FROM 'COMMUNICATION')
ORDER BY total_ns DESC, launch
LIMIT $top;
