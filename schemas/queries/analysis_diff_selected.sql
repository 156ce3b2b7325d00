-- With the grid, and the sizes of matrix products and copies, of rows that are one signature.
SELECT d.* EXCLUDE (place), s.gemm_m, s.gemm_n, s.gemm_k, s.gemm_batch, s.grid_x, s.grid_y, s.grid_z, s.bytes
FROM (SELECT *, row_number() OVER () AS place FROM diff($before, $after, source := 'selection', threshold := $threshold)) AS d
LEFT JOIN signatures AS s
    ON coalesce(d.signature_before, d.signature_after) = s.signature_id AND s.signature_id = coalesce(d.signature_after, d.signature_before)
ORDER BY d.place;
