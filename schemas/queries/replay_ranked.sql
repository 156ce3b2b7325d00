-- The selected signatures, the one with most GPU time first, with the time of all before it.
SELECT
    signature_id,
    try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
    try_cast(sum(sum(duration_ns)) OVER earlier AS BIGINT) AS before_ns,
    try_cast(sum(sum(duration_ns)) OVER () AS BIGINT) AS all_ns
FROM selection
WHERE timing = $timing
GROUP BY signature_id
WINDOW earlier AS (ORDER BY sum(duration_ns) DESC NULLS LAST, signature_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
ORDER BY total_ns DESC NULLS LAST, signature_id;
