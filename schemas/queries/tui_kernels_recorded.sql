-- How many launches of the signature $signature_id each trace holds one by one.
SELECT trace, sum(n)::BIGINT AS n
FROM all_rollups
WHERE signature_id = $signature_id AND origin = 'launches'
GROUP BY trace
ORDER BY trace;
