-- Signatures whose id starts with $text or whose kernel has it in its name; of names that are $text, only these. Most time first.
-- With $traces only those that ran in one of them, and what they took there.
WITH named AS (
    SELECT
        name_id,
        coalesce(short_name, name) AS kernel,
        $text <> '' AND contains(lower(concat_ws(' ', name, short_name, demangled)), lower($text)) AS is_part,
        coalesce(lower($text) IN (lower(name), lower(short_name), lower(demangled)), false) AS is_equal
    FROM kernel_names
)

SELECT
    s.signature_id,
    CASE WHEN starts_with(s.signature_id, lower($text)) THEN 'id' ELSE 'name' END AS matched,
    n.kernel,
    s.op,
    s.input_dims,
    concat_ws('x', s.grid_x, s.grid_y, s.grid_z) AS grid,
    sum(r.n)::BIGINT AS n,
    sum(r.total_ns)::BIGINT AS total_ns
FROM signatures AS s
LEFT JOIN named AS n USING (name_id)
LEFT JOIN all_rollups AS r
    ON s.signature_id = r.signature_id AND coalesce(list_contains($traces::VARCHAR[], r.trace), r.is_primary)
WHERE
    ($traces::VARCHAR[] IS NULL OR r.trace IS NOT NULL)
    AND (
        starts_with(s.signature_id, lower($text))
        OR n.is_equal
        OR (n.is_part AND NOT (SELECT bool_or(is_equal) FROM named))
    )
GROUP BY ALL
ORDER BY total_ns DESC NULLS LAST, s.signature_id;
