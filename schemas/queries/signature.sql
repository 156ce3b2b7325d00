-- Everything that the dimension tables hold about the signature $signature_id. Sources of category and dtype are named where these are not the name's.
SELECT
    s.* REPLACE (nullif(s.category_source, 'name') AS category_source, nullif(s.dtype_source, 'name') AS dtype_source),
    n.* EXCLUDE (name_id, kind, category, dtype, deriver_version, demangled),
    nullif(n.demangled, n.name) AS demangled,
    nullif(concat_ws(' × ', s.grid_x, s.grid_y, s.grid_z), '') AS grid,
    nullif(concat_ws(' × ', s.block_x, s.block_y, s.block_z), '') AS block,
    c.extra
FROM signatures AS s
LEFT JOIN kernel_names AS n USING (name_id)
LEFT JOIN op_calls AS c USING (call_id)
WHERE s.signature_id = $signature_id;
