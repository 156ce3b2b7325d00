-- Archived sources of kernels by hash, or by name for launches whose hash is not recorded: each text once.
SELECT
    kernel_hash AS "hash",
    min(name) AS name,
    min("source") AS "text",
    min(origin) AS origin,
    min(file) AS file
FROM kernel_sources
WHERE
    "language" = $language
    AND (list_contains($hashes::VARCHAR[], kernel_hash) OR list_contains($names::VARCHAR[], name))
GROUP BY kernel_hash
ORDER BY kernel_hash;
