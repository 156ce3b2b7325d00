-- Kernels of the selected launches side by side: one row per kernel and trace, and the sums of an iteration. A kernel is
-- the label from $labels whose part of a name in $texts matches, else its role, else its name; it is matched where every trace has it. $traces: order
-- of the traces.
WITH _launches AS (FROM _labelled_launches('selection', $texts, $labels)),

found AS (
    SELECT *, max(total_ns) OVER (PARTITION BY kernel_key) AS weight FROM _kernels_by_trace('_launches')
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
