SELECT
    row_number() OVER (ORDER BY k.total_ns DESC, k.name_id, k.category) AS place,
    k.share_pct,
    sum(k.share_pct) OVER (ORDER BY k.total_ns DESC, k.name_id, k.category) AS cumulative_pct,
    k.library,
    k.short_name AS kernel,
    concat_ws(', ',
        n.dtype,
        lower(k.category),
        nullif(n.operation, lower(k.category)),
        CASE WHEN n.tile_m IS NOT NULL THEN concat_ws('x', n.tile_m, n.tile_n, n.tile_k) || ' tile' END,
        CASE WHEN n.layout IS NOT NULL THEN n.layout || ' layout' END,
        CASE WHEN n.split_k THEN 'split over K' END
    ) AS description,
    k.n,
    k.total_ns,
    k.mean_ns,
    k.min_ns,
    k.max_ns,
    k.name
FROM top_kernels() AS k
LEFT JOIN kernel_names AS n USING (name_id)
WHERE k.trace = $trace AND k.timing <> 'profiled'
ORDER BY place
LIMIT 20;
