-- The columns of the object $object.
SELECT column_name AS "column", type, unit, meaning
FROM schema_docs
WHERE object = $object AND column_name IS NOT NULL
ORDER BY rowid;
