-- The mean of each counter over the launches of two sets, of all kernels together and of each matched kernel.
--
-- Kernels match by signature, else by name. Means are over launches that have the counter. Counters that a tool prints in several sections count once
-- a launch, with the digits of the most exact one.
--
-- Arguments:
--   before_name: name, run, label, or a pattern of one (`*` any text): the counters of all traces that it finds are one side.
--   after_name: the same for the other side.
-- Columns:
--   kernel VARCHAR: Short name of the kernel; NULL: all kernels.
--   matched_by: as in diff_classes
--   title VARCHAR: What reports call the counter; NULL for those that they do not show.
--   metric VARCHAR: Name of the counter, as in metrics.
--   unit VARCHAR: Its base unit.
--   n_before BIGINT: Launches before that have the counter.
--   n_after BIGINT: Launches after that have it.
--   mean_before DOUBLE: Mean before, in that unit.
--   mean_after DOUBLE: Mean after.
--   delta DOUBLE: Change of the mean.
--   delta_pct DOUBLE [%]: The same in percent of the mean before.
-- Example:
--   SELECT kernel, title, mean_before, mean_after, unit FROM diff_metrics('base', 'said') WHERE title IS NOT NULL;
CREATE OR REPLACE MACRO diff_metrics(before_name, after_name) AS TABLE
WITH titles AS (
    SELECT * FROM (VALUES
        (1, 'gpu__time_duration.sum', 'duration'),
        (2, 'sm__throughput.avg.pct_of_peak_sustained_elapsed', 'SM throughput'),
        (3, 'gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed', 'memory throughput'),
        (4, 'gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed', 'DRAM throughput'),
        (5, 'dram__throughput.avg.pct_of_peak_sustained_elapsed', 'DRAM throughput'),
        (6, 'dram__bytes.sum.per_second', 'DRAM bandwidth'),
        (7, 'l1tex__throughput.avg.pct_of_peak_sustained_active', 'L1 throughput'),
        (8, 'lts__throughput.avg.pct_of_peak_sustained_elapsed', 'L2 throughput'),
        (9, 'l1tex__t_sector_hit_rate.pct', 'L1 hit rate'),
        (10, 'lts__t_sector_hit_rate.pct', 'L2 hit rate'),
        (11, 'sm__warps_active.avg.pct_of_peak_sustained_active', 'achieved occupancy'),
        (12, 'sm__maximum_warps_per_active_cycle_pct', 'theoretical occupancy')
    ) AS shown (place, metric, title)
),

single AS (
    SELECT
        p.side,
        p.row_key,
        p.matched_by,
        p.kernel,
        m.metric,
        min(m.unit) AS unit,
        arg_min(m.value, (coalesce(m.precision, 0), m.pass, m.value)) AS value
    FROM launch_metrics AS m
    INNER JOIN launches AS l ON m.trace_id = l.trace_id AND m.launch_index = l.launch_index
    INNER JOIN _profiled_matches(before_name, after_name) AS p ON l.trace_id = p.trace_id AND l.signature_id = p.signature_id
    WHERE m.value IS NOT NULL AND m.instance IS NULL AND l.timing = 'profiled'
    GROUP BY p.side, p.row_key, p.matched_by, p.kernel, m.metric, m.trace_id, m.launch_index
),

averaged AS (
    SELECT
        row_key,
        metric,
        CASE WHEN row_key IS NOT NULL THEN any_value(matched_by) END AS matched_by,
        CASE WHEN row_key IS NOT NULL THEN min(kernel) END AS kernel,
        min(unit) AS unit,
        count(*) FILTER (side = 'before') AS n_before,
        count(*) FILTER (side = 'after') AS n_after,
        avg(value) FILTER (side = 'before') AS mean_before,
        avg(value) FILTER (side = 'after') AS mean_after
    FROM single
    GROUP BY GROUPING SETS ((row_key, metric), (metric))
)

SELECT
    a.kernel,
    a.matched_by,
    t.title,
    a.metric,
    a.unit,
    a.n_before,
    a.n_after,
    a.mean_before,
    a.mean_after,
    a.mean_after - a.mean_before AS delta,
    100 * (a.mean_after - a.mean_before) / nullif(a.mean_before, 0) AS delta_pct
FROM averaged AS a
LEFT JOIN titles AS t USING (metric)
ORDER BY a.row_key NULLS FIRST, t.place NULLS LAST, a.metric;
