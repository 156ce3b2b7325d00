-- Every parameter in the names of Tensile and TensileLite kernels, with its value and what that means.
--
-- Columns:
--   name_id: as in kernels
--   token VARCHAR: Token, as in tensile_tokens; the second of two equal ones ends in .2.
--   parameter VARCHAR: Parameter that it sets.
--   value VARCHAR: Its value in this name.
--   meaning VARCHAR: What the parameter means.
--   value_meaning VARCHAR: What this value means, where it has a meaning of its own.
--   kind, source: as in tensile_tokens
-- Example:
--   SELECT token, parameter, value, meaning FROM tensile_parameters LIMIT 10;
CREATE OR REPLACE VIEW tensile_parameters AS
SELECT
    d.name_id,
    t.token,
    t.parameter,
    d.entry.value AS value,
    t.meaning,
    v.meaning AS value_meaning,
    t.kind,
    t.source
FROM (
    SELECT name_id, unnest(map_entries(from_json(decoded, '"MAP(VARCHAR, VARCHAR)"'))) AS entry
    FROM kernel_names
    WHERE category = 'GEMM' AND library IN ('rocBLAS/Tensile', 'hipBLASLt') AND decoded IS NOT NULL
) AS d
INNER JOIN (
    SELECT *, CASE WHEN kind = 'problem' THEN parameter ELSE token END AS decoded_as
    FROM tensile_tokens
    WHERE kind <> 'value'
) AS t ON d.entry.key = t.decoded_as
LEFT JOIN (SELECT token, meaning FROM tensile_tokens WHERE kind = 'value') AS v
    ON v.token = t.token || replace(d.entry.value, '-', 'n');
