-- What completion offers: columns of kernels, the values that its columns with few values have, tables, views and table macros, keywords, other columns,
-- functions of the engine.
SELECT word
FROM (
    SELECT 1 AS place, column_index AS part, column_name AS word
    FROM duckdb_columns()
    WHERE table_name = 'kernels' AND database_name = current_database()
    UNION ALL
    SELECT 2, 0, '''' || replace(word, '''', '''''') || ''''
    FROM (
        SELECT category AS word FROM signatures
        UNION
        SELECT library FROM kernel_names
        UNION
        SELECT family FROM kernel_names
        UNION
        SELECT dtype FROM signatures
        UNION
        SELECT op FROM signatures
        UNION
        SELECT name FROM traces
        UNION
        SELECT phase FROM rollups
    )
    WHERE word IS NOT NULL
    UNION ALL
    SELECT 3, 0, view_name FROM duckdb_views() WHERE NOT internal AND database_name = current_database()
    UNION ALL
    SELECT 4, 0, table_name FROM duckdb_tables() WHERE NOT internal AND database_name = current_database()
    UNION ALL
    SELECT DISTINCT 5, 0, function_name || '(''selection'')'
    FROM duckdb_functions()
    WHERE function_type = 'table_macro' AND NOT internal AND list_contains(parameters, 'source')
    UNION ALL
    SELECT 6, generate_subscripts(listed, 1), unnest(listed)
    FROM (
        SELECT
            [
                'SELECT', 'FROM', 'WHERE', 'GROUP BY', 'ORDER BY', 'LIMIT', 'HAVING', 'JOIN', 'USING', 'BETWEEN', 'ILIKE', 'LIKE', 'IS NULL',
                'IS NOT NULL', 'DESC', 'count(*)', 'sum(', 'avg(', 'min(', 'max(', 'median(', 'quantile_cont(', 'selection', 'AND', 'OR', 'NOT'
            ] AS listed
    )
    UNION ALL
    SELECT DISTINCT 7, 0, column_name
    FROM duckdb_columns()
    WHERE NOT internal AND database_name = current_database() AND NOT starts_with(table_name, '_')
    UNION ALL
    SELECT DISTINCT 8, 0, function_name || '('
    FROM duckdb_functions()
    WHERE internal AND function_type IN ('scalar', 'aggregate', 'macro') AND regexp_full_match(function_name, '[a-z][a-z0-9_]+')
)
WHERE word IS NOT NULL
ORDER BY place, part, word;
