-- Kernels of the selected launches side by side: one row per kernel and trace, and the sums of an iteration. A kernel is what $texts and
-- $labels call so (a part of the name, and the name it goes by), else its role, else its name. $traces: order of the traces.
WITH pairs AS (
    SELECT generate_subscripts($texts::VARCHAR[], 1) AS place, unnest($texts::VARCHAR[]) AS text, unnest($labels::VARCHAR[]) AS label
),

timed AS (
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
    FROM selection
    WHERE duration_ns IS NOT NULL
),

paired AS (
    SELECT names.name, arg_min(pairs.label, pairs.place) AS label
    FROM (SELECT DISTINCT name FROM timed) AS names
    INNER JOIN pairs ON contains(names.name, pairs.text)
    GROUP BY names.name
),

labelled AS (
    SELECT
        timed.*,
        coalesce(paired.label, timed.role, timed.match_name) AS kernel_key,
        coalesce(paired.label, timed.role, timed.short_name, timed.name) AS kernel
    FROM timed
    LEFT JOIN paired USING (name)
),

grouped AS (
    SELECT
        kernel_key,
        min(kernel) AS kernel,
        trace,
        mode(short_name ORDER BY short_name) AS short_name,
        count(*) AS n,
        avg(duration_ns) AS mean_ns,
        min(duration_ns) AS min_ns,
        max(duration_ns) AS max_ns,
        try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
        CASE WHEN min(registers) = max(registers) THEN min(registers) END AS registers,
        CASE WHEN min(shared_bytes) = max(shared_bytes) THEN min(shared_bytes) END AS shared_bytes,
        CASE WHEN min(grid) = max(grid) THEN min(grid) END AS grid,
        CASE WHEN min(work_items) = max(work_items) THEN min(work_items) END AS work_items,
        CASE WHEN min(block) = max(block) THEN min(block) END AS block,
        CASE WHEN min(theoretical_occupancy) = max(theoretical_occupancy) THEN min(theoretical_occupancy) END AS theoretical_occupancy,
        CASE WHEN min(theoretical_occupancy_cu) = max(theoretical_occupancy_cu) THEN min(theoretical_occupancy_cu) END
            AS theoretical_occupancy_cu,
        CASE WHEN count(flops) = count(*) THEN sum(flops) END AS flops,
        CASE WHEN count(moved_bytes) = count(*) THEN sum(moved_bytes) END AS moved_bytes,
        CASE WHEN count(pct_peak_flops) = count(*) THEN sum(pct_peak_flops * duration_ns) / sum(duration_ns) END AS pct_peak_flops,
        CASE WHEN count(pct_peak_bandwidth) = count(*) THEN sum(pct_peak_bandwidth * duration_ns) / sum(duration_ns) END
            AS pct_peak_bandwidth
    FROM labelled
    GROUP BY kernel_key, trace
),

-- Kernels that every trace has are matched.
found AS (
    SELECT
        grouped.*,
        count(*) OVER (PARTITION BY kernel_key) = (SELECT count(DISTINCT trace) FROM grouped) AS matched,
        max(total_ns) OVER (PARTITION BY kernel_key) AS weight
    FROM grouped
),

-- An iteration launches each kernel a whole number of times; a stray one that only one trace has says nothing of that.
judged AS (
    SELECT
        found.*,
        coalesce(
            $iterations::BIGINT,
            list_reduce(list(n) FILTER (WHERE matched) OVER (PARTITION BY trace), lambda a, b: gcd(a, b)),
            list_reduce(list(n) OVER (PARTITION BY trace), lambda a, b: gcd(a, b))
        ) AS iterations
    FROM found
),

kernels AS (
    SELECT
        'kernel' AS row_kind,
        kernel,
        trace,
        short_name,
        matched,
        n,
        mean_ns,
        min_ns,
        max_ns,
        total_ns / iterations AS iteration_ns,
        registers,
        shared_bytes,
        grid,
        work_items,
        block,
        theoretical_occupancy,
        theoretical_occupancy_cu,
        flops / nullif(total_ns, 0) / 1e3 AS tflops,
        pct_peak_flops,
        moved_bytes / nullif(total_ns, 0) AS gbs,
        pct_peak_bandwidth,
        iterations,
        weight,
        kernel_key
    FROM judged
),

sums AS (
    SELECT
        CASE wanted.scope WHEN 'all' THEN 'iteration' ELSE 'matched' END AS row_kind,
        CASE wanted.scope WHEN 'all' THEN 'one iteration' ELSE 'one iteration, matched kernels' END AS kernel,
        judged.trace,
        NULL AS short_name,
        wanted.scope = 'matched' AS matched,
        min(judged.iterations) AS n,
        sum(judged.total_ns) / min(judged.iterations) AS mean_ns,
        NULL AS min_ns,
        NULL AS max_ns,
        sum(judged.total_ns) / min(judged.iterations) AS iteration_ns,
        sum(judged.flops) / nullif(sum(judged.total_ns), 0) / 1e3 AS tflops,
        min(judged.iterations) AS iterations
    FROM judged
    CROSS JOIN (VALUES ('matched'), ('all')) AS wanted (scope)
    WHERE wanted.scope = 'all' OR judged.matched
    GROUP BY wanted.scope, judged.trace
    -- Where all kernels are matched, the two sums are one.
    HAVING wanted.scope = 'all' OR NOT (SELECT bool_and(matched) FROM judged)
)

SELECT
    row_kind,
    kernel,
    trace,
    short_name,
    matched,
    n,
    mean_ns,
    min_ns,
    max_ns,
    iteration_ns,
    mean_ns / nullif(first_value(mean_ns) OVER (
        PARTITION BY row_kind, kernel_key ORDER BY list_position($traces::VARCHAR[], trace), trace ROWS UNBOUNDED PRECEDING
    ), 0) AS ratio,
    registers,
    shared_bytes,
    grid,
    work_items,
    block,
    theoretical_occupancy,
    theoretical_occupancy_cu,
    tflops,
    pct_peak_flops,
    gbs,
    pct_peak_bandwidth,
    iterations
FROM (FROM kernels UNION ALL BY NAME FROM sums)
ORDER BY
    CASE row_kind WHEN 'kernel' THEN 0 WHEN 'matched' THEN 1 ELSE 2 END,
    matched DESC,
    weight DESC,
    kernel,
    kernel_key,
    list_position($traces::VARCHAR[], trace),
    trace;
