-- Tables, views and macros with their meaning.
SELECT object, kind, meaning
FROM schema_docs
WHERE column_name IS NULL
ORDER BY kind, object;
