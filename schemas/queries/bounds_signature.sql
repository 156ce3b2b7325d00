-- What the rules say about the profiled launches of the signatures $signatures.
SELECT rule, verdict, detail, count(*) AS launches
FROM bounds
WHERE
    list_contains($signatures, signature_id)
    AND verdict IS NOT NULL
    AND trace_id NOT IN (SELECT trace_id FROM traces WHERE NOT coalesce(counted, true))
GROUP BY rule, verdict, detail
ORDER BY rule, launches DESC, verdict, detail;
