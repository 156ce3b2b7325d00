-- Reference tables are emptied and filled from their CSV files, column by column.

-- name: clear_gpu_specs
DELETE FROM gpu_specs;

-- name: fill_gpu_specs
INSERT INTO gpu_specs BY NAME
SELECT
    unnest($name::VARCHAR[]) AS name,
    unnest($vendor::VARCHAR[]) AS vendor,
    unnest($arch::VARCHAR[]) AS arch,
    unnest($fact::VARCHAR[]) AS fact,
    unnest($value::VARCHAR[])::DOUBLE AS value,
    unnest($unit::VARCHAR[]) AS unit,
    unnest($source::VARCHAR[]) AS source;

-- name: clear_gpu_names
DELETE FROM gpu_names;

-- name: fill_gpu_names
INSERT INTO gpu_names BY NAME
SELECT unnest($printed::VARCHAR[]) AS printed, unnest($name::VARCHAR[]) AS name;

-- name: clear_tensile_tokens
DELETE FROM tensile_tokens;

-- name: fill_tensile_tokens
INSERT INTO tensile_tokens BY NAME
SELECT
    unnest($token::VARCHAR[]) AS token,
    unnest($parameter::VARCHAR[]) AS parameter,
    unnest($kind::VARCHAR[]) AS kind,
    unnest($meaning::VARCHAR[]) AS meaning,
    unnest($source::VARCHAR[]) AS source;

-- name: clear_bound_rules
DELETE FROM bound_rules;

-- name: fill_bound_rules
INSERT INTO bound_rules BY NAME
SELECT
    unnest($rule::VARCHAR[]) AS rule,
    unnest($version::VARCHAR[])::INTEGER AS version,
    unnest($parameter::VARCHAR[]) AS parameter,
    unnest($value::VARCHAR[])::DOUBLE AS value,
    unnest($unit::VARCHAR[]) AS unit,
    unnest($meaning::VARCHAR[]) AS meaning,
    unnest($source::VARCHAR[]) AS source;

-- name: clear_metric_aliases
DELETE FROM metric_aliases;

-- name: fill_metric_aliases
INSERT INTO metric_aliases BY NAME
SELECT
    unnest($metric::VARCHAR[]) AS metric,
    unnest($alias::VARCHAR[]) AS alias,
    unnest($tool::VARCHAR[]) AS tool,
    unnest($unit::VARCHAR[]) AS unit,
    unnest($meaning::VARCHAR[]) AS meaning,
    unnest($source::VARCHAR[]) AS source;
