-- The capture of each launched graph, where one fits: where it was found (`way`, the first that has one), what it has, and how far it is off (`doubt`).
CREATE OR REPLACE VIEW _graph_captures AS
WITH _graphs AS (
    SELECT
        trace_id,
        run,
        graph_launch,
        calls,
        kernels,
        hash(list(identity ORDER BY position)) AS sequence,
        hash(list(captured_name ORDER BY position) FILTER (captured_name IS NOT NULL)) AS names
    FROM _graph_activities
    GROUP BY ALL
),

_totals AS (SELECT source, calls, kernels, names, max(captures) AS captures FROM _captured_sources GROUP BY ALL),

_sources AS (SELECT *, sum(captures) OVER (PARTITION BY source, kernels, names) = 1 AS is_only FROM _totals),

_traces AS (
    SELECT trace_id, graph_launch, calls, kernels, names, trace_id AS source, 1 AS way FROM _graphs
    UNION ALL
    SELECT g.trace_id, g.graph_launch, g.calls, g.kernels, g.names, r.source, 2
    FROM _graphs AS g
    INNER JOIN _recording_sources AS r ON g.trace_id = r.trace_id
    UNION ALL
    SELECT g.trace_id, g.graph_launch, g.calls, g.kernels, g.names, o.trace_id, 3
    FROM _graphs AS g
    INNER JOIN (SELECT DISTINCT trace_id, sequence FROM _graphs) AS o ON g.sequence = o.sequence AND g.trace_id <> o.trace_id
    UNION ALL
    SELECT trace_id, graph_launch, calls, kernels, names, 'run ' || run, 4 FROM _graphs
),

_fitting AS (
    SELECT
        g.trace_id,
        g.graph_launch,
        g.way,
        g.calls AS ran,
        c.source,
        c.calls,
        c.kernels,
        c.names,
        g.calls = c.calls AS is_whole,
        CASE WHEN g.kernels <> c.kernels THEN 0.1 WHEN g.calls <> c.calls THEN 0.05 ELSE 0 END AS doubt
    FROM _traces AS g
    INNER JOIN
        _sources AS c
        ON
            g.source = c.source
            AND (g.calls = c.calls OR (g.kernels = c.kernels AND c.is_only AND g.kernels > 0))
            AND coalesce(c.names = g.names, TRUE)
)

SELECT *
FROM _fitting
QUALIFY row_number() OVER (PARTITION BY trace_id, graph_launch ORDER BY doubt, way, source, names NULLS LAST) = 1;
