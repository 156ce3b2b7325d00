-- name: named
-- The traces $names as they were named: what work they hold, how it was timed, and whether all launches of them that other traces hold, too,
-- are primary in traces that are not named.
WITH found AS (
    SELECT
        t.trace_id,
        t.name,
        t.run,
        t.rank,
        t.default_phase,
        t.primary_timing,
        t.repeats,
        coalesce(t.is_primary, true) AS is_primary,
        CASE WHEN bool_or(r.timing = 'timeline') THEN 'timeline' ELSE 'profiled' END AS timing,
        count(r.trace_id) > 0 AS is_launched
    FROM traces AS t
    LEFT JOIN rollups AS r ON t.trace_id = r.trace_id AND r.origin = 'launches'
    WHERE list_contains($names::VARCHAR[], t.name)
    GROUP BY ALL
)

SELECT
    f.name,
    f.run,
    f.rank,
    f.default_phase,
    f.is_primary,
    f.timing,
    f.timing = f.primary_timing
    AND coalesce(NOT list_has_any(f.repeats, (SELECT list(other.trace_id) FROM found AS other)), false) AS stands_alone,
    f.is_launched
FROM found AS f
ORDER BY list_position($names::VARCHAR[], f.name);

-- name: everything
FROM kernels

-- name: few_columns
FROM _kernels

-- name: named_launches
-- {names} are quoted literals: neither a view nor a relation that is not read at once takes parameters.
FROM all_launches WHERE trace IN ({names})

-- name: of_traces
-- {also} are conditions of quoted literals, each with OR in front, about launches that are primary in traces that are not named.
SELECT * EXCLUDE (is_primary) FROM all_launches WHERE trace IN ({names}) AND (is_primary{also})

-- name: few_of_traces
FROM _kernels WHERE trace IN ({names})

-- name: bind_rows
CREATE OR REPLACE TEMPORARY VIEW selection AS {rows}

-- name: bind_nothing
DROP VIEW IF EXISTS temp.selection;
