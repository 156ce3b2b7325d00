-- What the rules say about the profiled launches of the signatures $signatures.
SELECT rule, verdict, detail, count(*) AS launches
FROM bounds
WHERE
    list_contains($signatures, signature_id)
    AND verdict IS NOT NULL
GROUP BY rule, verdict, detail
ORDER BY rule, launches DESC, verdict, detail;
