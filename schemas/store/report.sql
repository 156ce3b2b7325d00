-- name: table
-- Rows that others read; the engine holds them within its limit of memory, and in its temporary files.
CREATE OR REPLACE TEMP TABLE {name} AS
{statement};

-- name: view
-- Rows that are quickly found from those of others, and would take as much room again.
CREATE OR REPLACE TEMP VIEW {name} AS
{statement};
