-- The kernels that `diff` compares, a row per side and signature, with how they match (`_matched`). `sides` names a relation as of `_diff_sides`.
CREATE OR REPLACE MACRO _diff_kernels(sides) AS TABLE
WITH summed AS (
    SELECT
        side,
        signature_id,
        any_value(name_id) AS name_id,
        any_value(short_name) AS short_name,
        any_value(category) AS category,
        -- Calls found for launches of one signature may differ.
        coalesce(any_value(op) FILTER (inferred_by IS NULL), CASE WHEN min(op) = max(op) THEN min(op) END) AS op,
        CASE WHEN bool_or(op IS NOT NULL AND inferred_by IS NULL) IS NOT TRUE THEN min(inferred_by) END AS inferred_by,
        sum(n)::BIGINT AS n,
        sum(timed)::BIGINT AS timed,
        try_cast(sum(total_ns) AS BIGINT) AS total_ns,
        sum(sum_squares_ns2) AS sum_squares
    FROM query_table(sides)
    GROUP BY side, signature_id
),

_named AS (
    SELECT summed.*, coalesce(kernel_names.match_name, kernel_names.name) AS match_name, coalesce(kernel_names.kind, 'kernel') AS kind
    FROM summed
    LEFT JOIN kernel_names USING (name_id)
)

FROM _matched('_named');
