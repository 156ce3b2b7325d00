-- Recorded against replayed, per tier, category and route of each measured stage, of `closure_selected`. Figures per iteration;
-- `error_pct` compares replayed with recorded time of the same launches.
SELECT
    trace,
    stage,
    mode,
    CASE WHEN grouping(tier) = 0 THEN 'tier' WHEN grouping(category) = 0 THEN 'category' ELSE 'route' END AS grouped_by,
    CASE
        WHEN grouping(tier) = 0 THEN ['1 copies and fills', '2 BLAS matrix products', '3 other kernels'][tier]
        WHEN grouping(category) = 0 THEN category
        ELSE route
    END AS part,
    count(*) AS signatures,
    sum(n) AS n,
    sum(recorded_ns) AS recorded_ns,
    sum(share_pct) AS share_pct,
    100 * coalesce(sum(n) FILTER (replayed_ns IS NOT NULL), 0) / sum(n) AS replayed_launches_pct,
    sum(recorded_ns) FILTER (replayed_ns IS NOT NULL) AS compared_ns,
    sum(replayed_ns) AS replayed_ns,
    100 * (sum(replayed_ns) / nullif(sum(recorded_ns) FILTER (replayed_ns IS NOT NULL), 0) - 1) AS error_pct,
    sum(above_gap_mj) AS above_gap_mj,
    sqrt(sum(above_gap_half_mj ** 2) FILTER (above_gap_mj IS NOT NULL)) AS above_gap_error_mj
FROM closure_selected
GROUP BY GROUPING SETS ((trace, stage, mode, tier), (trace, stage, mode, category), (trace, stage, mode, route))
ORDER BY trace, stage, mode, grouped_by, CASE WHEN grouped_by = 'tier' THEN part END, recorded_ns DESC, part;
