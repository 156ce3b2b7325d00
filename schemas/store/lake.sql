-- DuckLake only. Words in braces are quoted literals and names from the catalog: these statements take no parameters there.

-- name: load
LOAD {extension};

-- name: retries
-- Commits that only race for the number of their snapshot are tried again by DuckLake itself.
SET GLOBAL ducklake_max_retry_count = 100;

-- name: attach
ATTACH {uri} AS warehouse (READ_ONLY, CREATE_IF_NOT_EXISTS false);

-- name: attach_for_writing
ATTACH {uri} AS warehouse (CREATE_IF_NOT_EXISTS false);

-- name: create
ATTACH {uri} AS warehouse (DATA_PATH {data});

-- name: first_file
SELECT file FROM glob($pattern) LIMIT 1;

-- name: attach_queue
-- A second connection to the server, on which committers wait for their turn.
ATTACH {address} AS commit_queue (TYPE postgres, READ_ONLY);

-- name: metadata_cache
SET GLOBAL parquet_metadata_cache = true;

-- name: bounded_memory
SET GLOBAL memory_limit = '2GB';
SET GLOBAL temp_directory = {folder};

-- name: queue
-- Held until the transaction of this connection ends, or its process; of a machine that is gone, for less than two minutes. A wait ends
-- after a second, with an error.
FROM postgres_query(
    'commit_queue',
    'SELECT
        set_config(''tcp_keepalives_idle'', ''60'', false) AS keepalive_idle,
        set_config(''tcp_keepalives_interval'', ''10'', false) AS keepalive_interval,
        set_config(''tcp_keepalives_count'', ''3'', false) AS keepalive_count,
        set_config(''lock_timeout'', ''1s'', true) AS patience,
        pg_advisory_xact_lock(hashtext(''kerneldb commit''))::text AS turn'
);

-- name: holder
-- Who has the turn now, and since when.
FROM postgres_query(
    'commit_queue',
    'SELECT
        ''process '' || a.pid || '' of the server''
        || coalesce('' for '' || host(a.client_addr), '''') || coalesce('', '' || a.xact_start, '''')
    FROM pg_locks AS l
    INNER JOIN pg_stat_activity AS a USING (pid)
    WHERE
        l.locktype = ''advisory''
        AND l.granted
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    LIMIT 1'
);

-- name: data_path
SELECT tags['data_path'] FROM duckdb_databases() WHERE database_name = $database;

-- name: look
-- Asked of a SQLite catalog itself.
PRAGMA schema_version;

-- name: folders
-- Where the files of each schema are, below the folder of the lake.
SELECT rtrim(path, '/') FROM __ducklake_metadata_warehouse.ducklake_schema WHERE path IS NOT NULL;

-- name: defined
-- All that the catalog defines now, as texts: what is looked at before a lake is asked, and not again while it is the same.
SELECT v::VARCHAR FROM __ducklake_metadata_warehouse.ducklake_view AS v WHERE v.end_snapshot IS NULL
UNION ALL
SELECT c::VARCHAR FROM __ducklake_metadata_warehouse.ducklake_column AS c WHERE c.end_snapshot IS NULL
UNION ALL
SELECT t::VARCHAR FROM __ducklake_metadata_warehouse.ducklake_table AS t WHERE t.end_snapshot IS NULL
UNION ALL
SELECT m::VARCHAR FROM __ducklake_metadata_warehouse.ducklake_macro AS m WHERE m.end_snapshot IS NULL
UNION ALL
SELECT i::VARCHAR FROM __ducklake_metadata_warehouse.ducklake_macro_impl AS i
UNION ALL
SELECT p::VARCHAR FROM __ducklake_metadata_warehouse.ducklake_macro_parameters AS p
UNION ALL
SELECT s::VARCHAR FROM __ducklake_metadata_warehouse.ducklake_schema AS s WHERE s.end_snapshot IS NULL
ORDER BY ALL;

-- name: secret
CREATE OR REPLACE SECRET kerneldb_s3 (TYPE s3, {settings});

-- name: lock
-- Two transactions that both change this row cannot both commit, so the second one sees what the first one added.
UPDATE commit_lock SET commits = commits + 1;

-- name: settings
CALL warehouse.set_option('parquet_compression', 'zstd');
CALL warehouse.set_option('parquet_version', '2');
CALL warehouse.set_option('target_file_size', '256MB');
CALL warehouse.set_option('data_inlining_row_limit', 0);

-- name: inlined
-- Once a table has rows in the catalog, every query that reads it asks the catalog twice more, also when they are gone.
CALL warehouse.set_option('data_inlining_row_limit', 10, table_name => {table});

-- name: known
SELECT trace_id FROM traces WHERE list_contains($trace_ids::VARCHAR[], trace_id);

-- name: trace_tables
-- The tables whose rows belong to traces, but for the traces themselves, their notes, which the user owns, and what joins them with others or is
-- found by comparing them: their histories. Not by duckdb_columns(), which binds every view first. Only our own tables: a file may hold others,
-- whose names would become part of the statements below.
SELECT table_name
FROM duckdb_tables()
WHERE
    database_name = $database
    AND schema_name = 'main'
    AND list_contains($tables::VARCHAR[], table_name)
    AND regexp_matches(sql, '[(, ]"?trace_id"? VARCHAR')
    AND table_name NOT IN ('traces', 'trace_tags', 'trace_links', 'launch_prints')
    AND NOT starts_with(table_name, 'history_')
ORDER BY table_name;

-- name: attach_source
ATTACH {path} AS source (TYPE duckdb, READ_ONLY);

-- name: attach_lake_source
ATTACH {uri} AS source (READ_ONLY, CREATE_IF_NOT_EXISTS false);

-- name: detach_source
DETACH source;

-- name: counts
SELECT trace_id, count(*) FROM source.main.{table} WHERE list_contains($trace_ids::VARCHAR[], trace_id) GROUP BY trace_id;

-- name: stage
-- As DuckLake writes its own files, in the order of time that ingest made.
COPY (SELECT * FROM source.main.{table} WHERE trace_id = {trace_id}) TO {file} (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2);

-- name: add_file
CALL ducklake_add_data_files('warehouse', {table}, {file}, allow_missing => true);

-- name: copy_rows
INSERT INTO {table} BY NAME SELECT * FROM source.main.{table} WHERE list_contains($trace_ids::VARCHAR[], trace_id);

-- name: copy_tags
INSERT INTO trace_tags BY NAME SELECT * FROM source.main.trace_tags WHERE trace_id = $trace_id;

-- name: copy_trace
INSERT INTO traces BY NAME
SELECT
    * REPLACE (
        $name AS name,
        coalesce(stated_run, $run) AS stated_run,
        NULL AS run,
        coalesce(label, $label) AS label,
        coalesce(default_phase, $default_phase) AS default_phase,
        now() AT TIME ZONE 'UTC' AS ingested_at
    )
FROM source.main.traces
WHERE trace_id = $trace_id;

-- name: used_names
-- What the traces name, and nothing else of a file with many traces.
CREATE OR REPLACE TEMP TABLE used_signatures AS
SELECT signature_id FROM source.main.rollups WHERE list_contains($trace_ids::VARCHAR[], trace_id)
UNION
SELECT inferred_id FROM source.main.rollups WHERE inferred_id IS NOT NULL AND list_contains($trace_ids::VARCHAR[], trace_id)
UNION
SELECT inferred_id
FROM source.main.replays
WHERE
    inferred_id IS NOT NULL
    AND signature_id IN (SELECT signature_id FROM source.main.rollups WHERE list_contains($trace_ids::VARCHAR[], trace_id));

-- name: copy_kernel_names
INSERT INTO kernel_names BY NAME
SELECT DISTINCT ON (name_id) *
FROM source.main.kernel_names AS part
WHERE
    (
        part.name_id IN (SELECT name_id FROM source.main.signatures WHERE signature_id IN (SELECT signature_id FROM used_signatures))
        OR part.name_id IN (SELECT name_id FROM source.main.kernel_symbols WHERE list_contains($trace_ids::VARCHAR[], trace_id))
    )
    AND NOT EXISTS (SELECT 1 FROM kernel_names AS present WHERE present.name_id = part.name_id);

-- name: copy_op_calls
INSERT INTO op_calls BY NAME
SELECT DISTINCT ON (call_id) *
FROM source.main.op_calls AS part
WHERE
    (
        part.call_id IN (SELECT call_id FROM source.main.signatures WHERE signature_id IN (SELECT signature_id FROM used_signatures))
        OR part.call_id IN (SELECT call_id FROM source.main.ops WHERE list_contains($trace_ids::VARCHAR[], trace_id))
    )
    AND NOT EXISTS (SELECT 1 FROM op_calls AS present WHERE present.call_id = part.call_id);

-- name: copy_signatures
INSERT INTO signatures BY NAME
SELECT DISTINCT ON (signature_id) *
FROM source.main.signatures AS part
WHERE
    part.signature_id IN (SELECT signature_id FROM used_signatures)
    AND NOT EXISTS (SELECT 1 FROM signatures AS present WHERE present.signature_id = part.signature_id);

-- name: source_traces
SELECT trace_id, name FROM source.main.traces WHERE list_contains($trace_ids::VARCHAR[], trace_id);

-- name: names
SELECT name FROM traces;

-- name: fillers
-- Statements that give each empty table one row, and that take it away again: for a table that never held a row, DuckLake asks the
-- catalog for figures which are not there, several times per query.
WITH columns AS (
    SELECT
        table_name,
        column_index,
        column_name,
        is_nullable,
        CASE
            WHEN data_type = 'VARCHAR' THEN ''''''
            WHEN data_type = 'BOOLEAN' THEN 'false'
            WHEN data_type = 'TIMESTAMP' THEN 'TIMESTAMP ''1970-01-01'''
            WHEN data_type LIKE 'MAP%' OR data_type LIKE '%[]' THEN 'NULL'
            ELSE '0'
        END AS filler
    FROM duckdb_columns()
    WHERE
        database_name = 'warehouse'
        AND schema_name = 'main'
        AND table_name IN (SELECT table_name FROM duckdb_tables() WHERE database_name = 'warehouse' AND schema_name = 'main')
        AND list_contains($tables::VARCHAR[], table_name)
)

SELECT
    'INSERT INTO "' || replace(table_name, '"', '""') || '" VALUES (' || string_agg(filler, ', ' ORDER BY column_index) || ');' AS filled,
    'DELETE FROM "' || replace(table_name, '"', '""') || '" WHERE '
    || coalesce(string_agg('"' || replace(column_name, '"', '""') || '" = ' || filler, ' AND ' ORDER BY column_index) FILTER (NOT is_nullable), 'true')
    || ';' AS emptied
FROM columns
GROUP BY table_name
ORDER BY table_name;

-- name: tables
SELECT table_name FROM duckdb_tables() WHERE database_name = 'warehouse' AND schema_name = 'main' ORDER BY table_name;

-- name: figures
-- Whether the catalog keeps figures of a table: from its first row on, also when that is gone again.
SELECT 1
FROM __ducklake_metadata_warehouse.ducklake_table_stats
WHERE table_id IN (
    SELECT table_id FROM __ducklake_metadata_warehouse.ducklake_table WHERE table_name = $table AND end_snapshot IS NULL
);

-- name: mark_unfinished
INSERT INTO schema_info VALUES ('unfinished', $tables);

-- name: forget_unfinished
DELETE FROM schema_info WHERE key = 'unfinished';

-- name: flush_inlined
CALL ducklake_flush_inlined_data('warehouse');

-- name: rewrite_deleted
CALL ducklake_rewrite_data_files('warehouse');

-- name: merge
CALL ducklake_merge_adjacent_files('warehouse');

-- name: old_snapshots
-- Chosen here: with a SQLite catalog, DuckLake compares times as texts of two forms, and takes all of a day for older than its evening.
SELECT snapshot_id
FROM ducklake_snapshots('warehouse')
WHERE snapshot_time < now() - to_hours({hours}) AND snapshot_id < (SELECT max(snapshot_id) FROM ducklake_snapshots('warehouse'))
ORDER BY snapshot_id;

-- name: expire
-- Without the column of times with a zone, for which DuckDB 1.5 wants the package pytz.
SELECT snapshot_id FROM ducklake_expire_snapshots('warehouse', versions => {versions});

-- name: clean_up
CALL ducklake_cleanup_old_files('warehouse', older_than => now() - to_hours({hours}));

-- name: odd_file
-- The first file below the folder of the lake that DuckLake did not write, or NULL.
SELECT min(file)
FROM glob($data || '**')
WHERE NOT regexp_matches(substr(file, length($data) + 1), '^[^/]+/[^/]+/.+[.]parquet$') AND NOT starts_with(parse_filename(file), '.');

-- name: orphans
-- Never cleanup_all: the files of a commit that is under way would go, and every later scan would fail.
CALL ducklake_delete_orphaned_files('warehouse', older_than => now() - to_hours({hours}));

-- name: file_counts
SELECT sum(file_count)::BIGINT, sum(file_size_bytes)::BIGINT, sum(delete_file_count)::BIGINT FROM ducklake_table_info('warehouse');

-- name: snapshots
SELECT count(*) FROM ducklake_snapshots('warehouse');
