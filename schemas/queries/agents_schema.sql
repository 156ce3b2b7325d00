-- Tables, views and macros, or the columns of one of them, with unit and meaning.
SELECT object, kind, column_name AS "column", type, unit, meaning, example
FROM schema_docs
WHERE
    NOT starts_with(kind, 'internal')
    AND (object = $object OR ($object IS NULL AND column_name IS NULL))
ORDER BY object, rowid;
