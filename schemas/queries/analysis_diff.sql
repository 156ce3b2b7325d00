-- With the sizes of the matrix products of rows that are one signature on both sides.
SELECT d.* EXCLUDE (place), s.gemm_m, s.gemm_n, s.gemm_k, s.gemm_batch
FROM (SELECT *, row_number() OVER () AS place FROM diff($before, $after, threshold := $threshold)) AS d
LEFT JOIN signatures AS s ON d.signature_before = s.signature_id AND d.signature_after = s.signature_id
ORDER BY d.place;
