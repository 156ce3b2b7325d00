-- The signatures of `selection`, also profiled ones, longest time first.
SELECT signature_id, try_cast(sum(duration_ns) AS BIGINT) AS total_ns
FROM selection
GROUP BY signature_id
ORDER BY total_ns DESC NULLS LAST, signature_id
LIMIT 10000;
