-- The rows of `source`, whose column `called` is a kernel's name as printed, with its base name `base`: without template arguments and parameters,
-- which prints cut.
CREATE OR REPLACE MACRO _base_names(source) AS TABLE
SELECT *, regexp_extract(called, '^[^<(\[ ]*') AS base
FROM query_table(source);
