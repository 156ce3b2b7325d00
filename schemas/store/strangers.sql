-- name: aside
-- What is asked here must not find the macros of the file: they could replace functions and operators.
USE memory;

-- name: functions
-- The functions of the file by name, of which capitals are no part for DuckDB, and whether it has one of that name. All in one look: DuckDB prints every
-- definition for each. Without the defaults of arguments, which it lists in one place only: see `asked_wrong`.
SELECT
    lower(function_name) AS function_name,
    bool_or(internal) AS is_of_duckdb,
    list([schema_name, function_type, parameters::VARCHAR, macro_definition]) FILTER (database_name = 'warehouse' AND NOT internal) AS made
FROM duckdb_functions()
GROUP BY ALL
HAVING made IS NOT NULL
ORDER BY ALL;

-- name: misfits
-- Objects under our names that are of another kind, and what runs beside a statement of ours or decides what rows it finds.
SELECT 'the view ' || view_name || ' is in the place of a table'
FROM duckdb_views()
WHERE database_name = 'warehouse' AND schema_name = 'main' AND list_contains($tables, lower(view_name))
UNION ALL
SELECT 'the table ' || table_name || ' is in the place of a view'
FROM duckdb_tables()
WHERE database_name = 'warehouse' AND schema_name = 'main' AND list_contains($views, lower(table_name))
UNION ALL
SELECT 'the table ' || table_name || ' has the index ' || index_name
FROM duckdb_indexes()
WHERE database_name = 'warehouse' AND schema_name = 'main' AND list_contains($tables, lower(table_name))
UNION ALL
SELECT 'the table ' || table_name || ' has a constraint ' || constraint_type
FROM duckdb_constraints()
WHERE database_name = 'warehouse' AND schema_name = 'main' AND list_contains($tables, lower(table_name)) AND constraint_type <> 'NOT NULL'
UNION ALL
SELECT 'there is a type ' || type_name
FROM duckdb_types()
WHERE database_name = 'warehouse' AND schema_name = 'main' AND NOT internal
ORDER BY ALL;

-- name: triggers
-- DuckDB has them since 2.0.
SELECT 'the table ' || table_name || ' has the trigger ' || trigger_name
FROM duckdb_triggers()
WHERE database_name = 'warehouse' AND schema_name = 'main' AND list_contains($tables, lower(table_name))
ORDER BY ALL;

-- name: columns
SELECT table_name, column_name, data_type, column_default
FROM duckdb_columns()
WHERE database_name = 'warehouse' AND schema_name = 'main' AND list_contains($tables, lower(table_name))
ORDER BY ALL;

-- name: views
SELECT view_name, sql
FROM duckdb_views()
WHERE database_name = 'warehouse' AND schema_name = 'main' AND list_contains($views, lower(view_name))
ORDER BY ALL;

-- name: macros_of_lake
-- As `functions`: the catalog keeps the texts that DuckDB printed, and prints them in another way once it has read them.
SELECT
    lower(m.macro_name),
    CASE i.type WHEN 'table' THEN 'table_macro' ELSE 'macro' END,
    '[' || coalesce(string_agg(p.parameter_name, ', ' ORDER BY p.column_id), '') || ']',
    i.sql
FROM __ducklake_metadata_warehouse.ducklake_macro AS m
INNER JOIN __ducklake_metadata_warehouse.ducklake_macro_impl AS i ON m.macro_id = i.macro_id
LEFT JOIN __ducklake_metadata_warehouse.ducklake_macro_parameters AS p ON i.macro_id = p.macro_id AND i.impl_id = p.impl_id
WHERE m.end_snapshot IS NULL AND list_contains($macros, lower(m.macro_name))
GROUP BY m.macro_id, m.macro_name, i.impl_id, i.type, i.sql
ORDER BY ALL;

-- name: asked_wrong
-- Fails, and the message lists the arguments of the macro with their defaults.
FROM warehouse.main.{macro}(kerneldb_no_such_argument := 1);

-- name: ours
-- Statements that drop what has our names.
SELECT 'DROP VIEW IF EXISTS warehouse.main."' || view_name || '";'
FROM duckdb_views()
WHERE database_name = 'warehouse' AND schema_name = 'main' AND list_contains($views, lower(view_name))
UNION ALL
SELECT DISTINCT
    'DROP MACRO' || CASE WHEN function_type = 'table_macro' THEN ' TABLE' ELSE '' END || ' IF EXISTS warehouse.main."' || function_name || '";'
FROM duckdb_functions()
WHERE database_name = 'warehouse' AND schema_name = 'main' AND list_contains($macros, lower(function_name))
ORDER BY ALL;
