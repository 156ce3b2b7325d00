-- The rows of the view and of the macro top_kernels, from sums per signature with the columns of `kernel_rollups`. Summed before the names are
-- joined: a name is some hundred characters long.
CREATE OR REPLACE MACRO _top_kernels(sums) AS TABLE
SELECT
    g.trace,
    g.timing,
    k.name,
    k.short_name,
    k.kind,
    k.category,
    k.library,
    g.n,
    g.total_ns,
    g.mean_ns,
    g.min_ns,
    g.max_ns,
    g.share_pct,
    g.name_id
FROM (
    SELECT
        trace,
        timing,
        name_id,
        sum(n)::BIGINT AS n,
        try_cast(sum(total_ns) AS BIGINT) AS total_ns,
        sum(total_ns) / nullif(sum(timed), 0) AS mean_ns,
        min(min_ns) AS min_ns,
        max(max_ns) AS max_ns,
        100 * sum(total_ns) / nullif(sum(sum(total_ns)) OVER (PARTITION BY trace, timing), 0) AS share_pct
    FROM query_table(sums)
    GROUP BY trace, timing, name_id
) AS g
LEFT JOIN kernel_names AS k USING (name_id)
ORDER BY g.total_ns DESC, g.trace, g.timing, g.name_id;

-- FROM top_kernels('selection'): the view of this name, over any relation that has the columns of `kernels`.
CREATE OR REPLACE MACRO top_kernels(source) AS TABLE
WITH _summed AS (FROM launch_rollups(source))

FROM _top_kernels('_summed');
