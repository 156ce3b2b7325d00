-- name: relations
-- Those of other schemas too: a database that has some is not empty.
SELECT CASE WHEN table_schema = 'main' THEN table_name ELSE table_schema || '.' || table_name END
FROM information_schema.tables
WHERE table_catalog = 'warehouse';

-- name: schema
SELECT max(version) FROM warehouse.main.schema_version;

-- name: objects_hash
SELECT value FROM warehouse.main.schema_info WHERE key = 'objects_hash';

-- name: unfinished
SELECT value FROM warehouse.main.schema_info WHERE key = 'unfinished';

-- name: storage
SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'warehouse';

-- name: record
INSERT INTO schema_version VALUES ($version, $name, now() AT TIME ZONE 'UTC');

-- name: forget_hash
DELETE FROM schema_info WHERE key = 'objects_hash';

-- name: store_hash
INSERT INTO schema_info VALUES ('objects_hash', $hash);

-- name: stale_objects
-- Statements that drop the views and macros of another version that this one does not have. What users made is in no docs.
SELECT DISTINCT
    CASE WHEN v.view_name IS NOT NULL AND NOT list_contains($views, d.object) THEN 'DROP VIEW IF EXISTS "' || replace(d.object, '"', '""') || '";' ELSE '' END
    || CASE
        WHEN contains(d.kind, 'macro') AND NOT list_contains($macros, d.object) THEN 'DROP MACRO TABLE IF EXISTS "' || replace(d.object, '"', '""') || '";' ELSE ''
    END
FROM schema_docs AS d
LEFT JOIN duckdb_views() AS v ON v.database_name = 'warehouse' AND v.schema_name = 'main' AND v.view_name = d.object
WHERE d.column_name IS NULL AND d.kind <> 'table';

-- name: clear_docs
DELETE FROM schema_docs;

-- name: insert_docs
INSERT INTO schema_docs
SELECT
    unnest($object), unnest($kind), unnest($column_name), unnest($type), unnest($unit), unnest($meaning), unnest($subject), unnest($example),
    unnest($notes);

-- name: comments
-- The docs as COMMENT statements, which take literals only.
SELECT
    'COMMENT ON '
    || CASE
        WHEN column_name IS NOT NULL THEN 'COLUMN "' || object || '"."' || column_name || '"'
        WHEN kind = 'macro' THEN 'MACRO TABLE "' || object || '"'
        ELSE upper(kind) || ' "' || object || '"'
    END
    || ' IS ''' || replace(meaning || coalesce(' [' || unit || ']', ''), '''', '''''') || ''';'
FROM schema_docs
WHERE kind IN ('table', 'view') OR (kind = 'macro' AND column_name IS NULL);

-- name: comments_of_lake
-- DuckLake takes comments on tables and views, and none on macros and on the columns of views. A comment on a column is a change of its
-- table there, so those are left to schema_docs.
SELECT
    'COMMENT ON ' || CASE WHEN kind = 'table' THEN 'TABLE "' ELSE 'VIEW "' END || object || '" IS '''
    || replace(meaning, '''', '''''') || ''';'
FROM schema_docs
WHERE column_name IS NULL AND kind IN ('table', 'view');
