-- FROM top_kernels('selection'): the view of this name, over any relation that has the columns of `kernels`.
CREATE OR REPLACE MACRO top_kernels(source) AS TABLE
SELECT
    trace,
    any_value(name) AS name,
    any_value(short_name) AS short_name,
    min(kind) AS kind,
    any_value(category) AS category,
    any_value(library) AS library,
    count(*) AS n,
    sum(duration_ns)::BIGINT AS total_ns,
    avg(duration_ns) AS mean_ns,
    min(duration_ns) AS min_ns,
    max(duration_ns) AS max_ns,
    100 * sum(duration_ns) / nullif(sum(sum(duration_ns)) OVER (PARTITION BY trace), 0) AS share_pct,
    name_id
FROM query_table(source)
WHERE timing = 'timeline'
GROUP BY trace, name_id
ORDER BY total_ns DESC, trace, name_id;
