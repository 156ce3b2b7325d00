-- Launches and GPU time per `key` of `keyed`, the columns of `kernel_rollups` and `key`: the figures of `top`, and what a list says about a kernel
-- besides. `listed` are the launches that are there one by one. What a key holds several of is that of the signature with the longest time.
SELECT
    g.*, n.short_name AS kernel, s.category, n.library, s.dtype, s.grid_x, s.grid_y, s.grid_z, s.block_x, s.block_y, s.block_z,
    s.input_dims AS shape, s.bytes
FROM (
    SELECT
        key,
        min(op) AS op,
        min(inferred_by) AS inferred_by,
        arg_max(signature_id, (coalesce(total_ns, -1), signature_id)) AS signature_id,
        sum(n)::BIGINT AS n,
        coalesce(sum(n) FILTER (origin = 'launches'), 0)::BIGINT AS listed,
        try_cast(sum(total_ns) AS BIGINT) AS total_ns,
        100 * sum(total_ns) / nullif(sum(sum(total_ns)) OVER (), 0) AS share_pct,
        sum(total_ns) / nullif(sum(timed), 0) AS mean_ns,
        min(min_ns) AS min_ns,
        max(max_ns) AS max_ns
    FROM keyed
    WHERE timing <> 'profiled'
    GROUP BY key
) AS g
LEFT JOIN signatures AS s USING (signature_id)
LEFT JOIN kernel_names AS n ON s.name_id = n.name_id
ORDER BY g.total_ns DESC, g.n DESC, g.key;
