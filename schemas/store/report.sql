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

-- name: sharing
-- The traces that have launches in common with another trace of their run, which count there.
SELECT name FROM traces WHERE repeats IS NOT NULL OR is_primary = false;

-- name: alone_kernels
-- {trace} and {timing} are quoted literals: a view takes no parameters.
CREATE OR REPLACE TEMP VIEW kernels AS
SELECT * EXCLUDE (is_primary) FROM all_launches WHERE is_primary OR (trace = {trace} AND timing = {timing});

-- name: alone__kernels
CREATE OR REPLACE TEMP VIEW _kernels AS
SELECT * EXCLUDE (is_primary) FROM all_launches WHERE is_primary OR (trace = {trace} AND timing = {timing});

-- name: alone_kernel_rollups
CREATE OR REPLACE TEMP VIEW kernel_rollups AS
SELECT * EXCLUDE (is_primary) FROM all_rollups WHERE is_primary OR (trace = {trace} AND timing = {timing});

-- name: together
DROP VIEW temp.{name};
