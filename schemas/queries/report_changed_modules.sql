-- GPU time by module of the network before and after, as a tree: with what each calls, and its own. Backward launches count with their forward call.
WITH earlier AS (
    FROM kernels WHERE trace IN (SELECT trace FROM _traces_named($before))
),

later AS (
    FROM kernels WHERE trace IN (SELECT trace FROM _traces_named($after))
),

sides AS (
    SELECT 'before' AS side, * FROM module_tree('earlier')
    UNION ALL
    SELECT 'after', * FROM module_tree('later')
)

SELECT
    repeat('· ', min(depth)) || any_value(module) AS module,
    coalesce(sum(n) FILTER (side = 'before'), 0)::BIGINT AS n_before,
    coalesce(sum(n) FILTER (side = 'after'), 0)::BIGINT AS n_after,
    coalesce(sum(total_ns) FILTER (side = 'before'), 0)::BIGINT AS total_before_ns,
    coalesce(sum(total_ns) FILTER (side = 'after'), 0)::BIGINT AS total_after_ns,
    total_after_ns - total_before_ns AS delta_ns,
    100::DOUBLE * delta_ns / nullif(total_before_ns, 0) AS delta_pct,
    (coalesce(sum(self_ns) FILTER (side = 'after'), 0) - coalesce(sum(self_ns) FILTER (side = 'before'), 0))::BIGINT AS self_delta_ns
FROM sides
WHERE EXISTS (FROM sides WHERE module <> '(outside of modules)')
GROUP BY path
ORDER BY
    -- In the order of numbers within names: layer 2 before layer 10. Each below the module that calls it.
    list_transform(
        string_split(path, '.'),
        lambda name: list_transform(regexp_extract_all(name, '[0-9]+|[^0-9]+'), lambda part: CASE WHEN regexp_matches(part, '^[0-9]') THEN lpad(part, greatest(20, length(part))::INTEGER, '0') ELSE part END)
    ),
    path
LIMIT 1000;
