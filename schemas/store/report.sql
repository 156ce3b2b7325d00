-- name: table
-- Rows that others read; the engine holds them within its limit of memory, and in its temporary files.
CREATE TEMP TABLE {name} AS
{statement};

-- name: view
-- Rows that are quickly found from those of others, and would take as much room again.
CREATE TEMP VIEW {name} AS
{statement};

-- name: kept
FROM {name};

-- name: drop_table
DROP TABLE {name};

-- name: drop_view
DROP VIEW {name};
