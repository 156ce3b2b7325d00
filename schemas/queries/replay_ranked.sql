-- The selected signatures, the one with most GPU time first, with the time of all before it.
SELECT
    signature_id,
    sum(duration_ns)::BIGINT AS total_ns,
    (sum(sum(duration_ns)) OVER earlier)::BIGINT AS before_ns,
    (sum(sum(duration_ns)) OVER ())::BIGINT AS all_ns
FROM selection
WHERE timing = $timing
GROUP BY signature_id
WINDOW earlier AS (ORDER BY sum(duration_ns) DESC NULLS LAST, signature_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
ORDER BY total_ns DESC NULLS LAST, signature_id;
