-- The launches of a relation with the columns of `kernels` that have a duration, each with the identity of its kernel, `kernel_key`, and its label,
-- `kernel`: the label from `labels` whose part of a name in `texts` matches, else the role, else the name.
CREATE OR REPLACE MACRO _labelled_launches(source, texts, labels) AS TABLE
WITH _pairs AS (
    SELECT generate_subscripts(texts::VARCHAR[], 1) AS place, unnest(texts::VARCHAR[]) AS text, unnest(labels::VARCHAR[]) AS label
),

_timed AS (
    SELECT
        trace,
        name,
        short_name,
        role,
        duration_ns,
        flops,
        moved_bytes,
        coalesce(registers_reported, registers) AS registers,
        shared_bytes,
        grid_x || 'x' || grid_y || 'x' || grid_z AS grid,
        CASE WHEN reported_grid_unit = 'work-items' THEN reported_grid_x || 'x' || reported_grid_y || 'x' || reported_grid_z END AS work_items,
        block_x || 'x' || block_y || 'x' || block_z AS block,
        theoretical_occupancy,
        theoretical_occupancy_cu,
        pct_peak_flops,
        pct_peak_bandwidth,
        coalesce(match_name, name) AS match_name
    FROM query_table(source)
    WHERE duration_ns IS NOT NULL
),

_paired AS (
    SELECT names.name, arg_min(p.label, p.place) AS label
    FROM (SELECT DISTINCT name FROM _timed) AS names
    INNER JOIN _pairs AS p ON contains(names.name, p.text)
    GROUP BY names.name
)

SELECT
    t.*,
    coalesce(p.label, t.role, t.match_name) AS kernel_key,
    coalesce(p.label, t.role, t.short_name, t.name) AS kernel
FROM _timed AS t
LEFT JOIN _paired AS p USING (name);
