-- What completion offers: columns of tables, values of columns of kernels (of each column those 400 with most GPU time; of traces, modules, lines and calls
-- those with most launches),
-- tables, views and table macros, keywords, functions of the engine. kind: column, value, table, view, macro, keyword, function; part_of: the table of a
-- column, the column of a value; meaning: what to show beside it.
WITH
    used AS (SELECT signature_id, phase, sum(total_ns) AS weight FROM rollups GROUP BY ALL),
    placed AS (SELECT module, python_line, api_call, count(*) AS n FROM launches GROUP BY ALL),
    named AS (
        SELECT UNNEST([
            {'part_of': 'category', 'word': s.category}, {'part_of': 'dtype', 'word': s.dtype}, {'part_of': 'op', 'word': s.op},
            {'part_of': 'kind', 'word': s.kind}, {'part_of': 'library', 'word': n.library}, {'part_of': 'family', 'word': n.family},
            {'part_of': 'short_name', 'word': n.short_name}, {'part_of': 'phase', 'word': u.phase}
        ], recursive := true), u.weight
        FROM signatures AS s
        LEFT JOIN kernel_names AS n USING (name_id)
        LEFT JOIN used AS u USING (signature_id)
        UNION ALL
        SELECT UNNEST([{'part_of': 'trace', 'word': name}, {'part_of': 'source', 'word': source}], recursive := true), launches
        FROM traces
        UNION ALL
        SELECT 'module', module, n FROM placed WHERE module IS NOT NULL
        UNION ALL
        SELECT 'python_line', python_line, n FROM placed WHERE python_line IS NOT NULL
        UNION ALL
        SELECT 'api_call', api_call, n FROM placed WHERE api_call IS NOT NULL
    ),
    valued AS (
        SELECT part_of, word
        FROM named
        WHERE word IS NOT NULL
        GROUP BY part_of, word
        QUALIFY row_number() OVER (PARTITION BY part_of ORDER BY sum(weight) DESC NULLS LAST, word) <= 400
    ),
    listed AS (
        SELECT [
            'SELECT', 'FROM', 'WHERE', 'GROUP BY', 'ORDER BY', 'LIMIT', 'HAVING', 'JOIN', 'USING', 'BETWEEN', 'ILIKE', 'LIKE', 'IS NULL',
            'IS NOT NULL', 'DESC', 'AND', 'OR', 'NOT', 'DISTINCT', 'CASE', 'WHEN', 'THEN', 'ELSE', 'END', 'WITH', 'UNION ALL', 'QUALIFY', 'EXPLAIN',
            'DESCRIBE', 'SUMMARIZE', 'PIVOT', 'OFFSET', 'INTERVAL', 'EXCLUDE', 'FILTER', 'PARTITION BY', 'LEFT JOIN'
        ] AS keywords, [
            'count(*)', 'sum(', 'avg(', 'min(', 'max(', 'median(', 'quantile_cont('
        ] AS functions
    ),
    offered AS (
        SELECT
            CASE WHEN object = 'kernels' THEN 1 ELSE 6 END AS place, column_index AS part, column_name AS word, 'column' AS kind, object AS part_of,
            concat_ws('  ', type, meaning) AS meaning
        FROM (
            SELECT docs.*, found.column_index
            FROM schema_docs AS docs
            LEFT JOIN duckdb_columns() AS found
                ON found.database_name = current_database() AND found.table_name = docs.object AND found.column_name = docs.column_name
            WHERE docs.column_name IS NOT NULL AND docs.kind NOT LIKE 'internal%'
        )
        UNION ALL
        SELECT 2, 0, '''' || replace(word, '''', '''''') || '''', 'value', part_of, part_of FROM valued
        UNION ALL
        SELECT
            CASE docs.kind WHEN 'view' THEN 3 WHEN 'table' THEN 4 ELSE 5 END, (docs.object <> 'kernels')::INTEGER,
            docs.object || CASE WHEN parameters IS NULL THEN '' WHEN parameters[1] = 'source' THEN '(''selection'')' ELSE '(' END, docs.kind, NULL,
            concat_ws('  ', '(' || array_to_string(parameters, ', ') || ')', docs.meaning)
        FROM schema_docs AS docs
        LEFT JOIN (
            SELECT DISTINCT function_name, parameters
            FROM duckdb_functions()
            WHERE function_type = 'table_macro' AND database_name = current_database()
        ) AS macros
            ON docs.kind = 'macro' AND function_name = docs.object
        WHERE docs.column_name IS NULL AND docs.kind NOT LIKE 'internal%'
        UNION ALL
        SELECT 3, 0, 'selection', 'view', NULL, 'the selected launches, with the columns of kernels'
        UNION ALL
        SELECT 5, generate_subscripts(keywords, 1), UNNEST(keywords), 'keyword', NULL, '' FROM listed
        UNION ALL
        SELECT 5, 100 + generate_subscripts(functions, 1), UNNEST(functions), 'function', NULL, '' FROM listed
        UNION ALL
        SELECT 7, 0, function_name || '(', 'function', NULL, any_value(description)
        FROM duckdb_functions()
        WHERE internal AND function_type IN ('scalar', 'aggregate', 'macro', 'window') AND regexp_full_match(function_name, '[a-z][a-z0-9_]+')
        GROUP BY function_name
    )
SELECT word, kind, part_of, coalesce(meaning, '') AS meaning
FROM offered
ORDER BY place, part, word, part_of;
