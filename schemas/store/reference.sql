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

-- name: clear_peak_types
DELETE FROM peak_types;

-- name: fill_peak_types
INSERT INTO peak_types BY NAME
SELECT unnest($dtype::VARCHAR[]) AS dtype, unnest($fact::VARCHAR[]) AS fact;

-- name: devices
-- Every device of every trace, with what its processes agree on.
SELECT
    trace_id,
    device,
    CASE WHEN min(name) = max(name) THEN min(name) END AS name,
    CASE WHEN min(arch) = max(arch) THEN min(arch) END AS arch,
    CASE WHEN min(multiprocessors) = max(multiprocessors) THEN min(multiprocessors) END AS multiprocessors,
    any_value(gpu) AS gpu
FROM devices
GROUP BY trace_id, device;

-- name: set_gpus
UPDATE devices SET gpu = known.gpu
FROM (
    SELECT unnest($trace_id::VARCHAR[]) AS trace_id, unnest($device::INTEGER[]) AS device, unnest($gpu::VARCHAR[]) AS gpu
) AS known
WHERE devices.trace_id = known.trace_id AND devices.device = known.device;

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
