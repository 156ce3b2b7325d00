-- name: no_extensions
-- Nothing is fetched from the network, whatever a path or a statement looks like.
SET GLOBAL autoinstall_known_extensions = false;
SET GLOBAL autoload_known_extensions = false;

-- name: attach
-- {path} is a quoted literal: DuckDB 1.5 takes no parameter here. Without TYPE, the name and the content of the file
-- choose the extension that reads it (sqlite:…, md:…, a CSV file).
ATTACH {path} AS warehouse (TYPE duckdb, READ_ONLY);

-- name: attach_for_writing
-- A row group is written by one thread: half as long as DuckDB makes them, they keep twice as many busy. The file does not note it.
ATTACH {path} AS warehouse (TYPE duckdb, ROW_GROUP_SIZE 61440);

-- name: create
-- Files stay readable by DuckDB 1.5, whichever version writes them.
ATTACH {path} AS warehouse (TYPE duckdb, STORAGE_VERSION 'v1.5.0', ROW_GROUP_SIZE 61440);

-- name: detach
DETACH warehouse;

-- name: use
USE warehouse;

-- name: time_zone
SET GLOBAL TimeZone = 'UTC';

-- name: no_aggregate_pushdown
-- With it, DuckDB 2.0 joins launches with ops 3.5 times slower.
SET GLOBAL disabled_optimizers = 'partial_aggregate_pushdown';

-- name: allow_folders
SET GLOBAL allowed_directories = {folders};

-- name: unordered
-- Rows without ORDER BY go in as they come, on all cores. Parts of long traces are in the order of time as they are.
SET GLOBAL preserve_insertion_order = false;

-- name: bounded_memory
-- A commit sorts whole tables of a trace; past this it spills beside the files that it reads.
SET GLOBAL memory_limit = '1GB';
SET GLOBAL temp_directory = {folder};

-- name: bounded_questions
-- Questions that put long traces in order spill past this, into temporary files: DuckDB's own limit is the machine's memory, whoever else uses it.
SET GLOBAL memory_limit = '{megabytes}MB';
SET GLOBAL temp_directory = {folder};

-- name: no_external_access
SET GLOBAL enable_external_access = false;

-- name: lock
SET GLOBAL lock_configuration = true;

-- name: columns_of
-- The columns of those of $names that are objects of ours.
SELECT object, column_name FROM schema_docs WHERE column_name IS NOT NULL AND list_contains($names::VARCHAR[], object) ORDER BY rowid;

-- name: parsed
-- A statement that reads, as the engine parses it; of others only that it cannot be told.
SELECT json_serialize_sql($sql);
