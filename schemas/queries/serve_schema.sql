-- Tables, views and macros with their columns, for completion.
SELECT object, kind, column_name, type, meaning
FROM schema_docs
WHERE kind NOT LIKE 'internal%'
ORDER BY object, column_name IS NOT NULL, column_name;
