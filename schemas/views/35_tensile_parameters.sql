-- Every token of every Tensile and TensileLite name, with its value and meaning: what the decoder read, joined with tensile_tokens. A flag of
-- the problem (kind problem) is decoded under its parameter's name, all else under its token.
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
