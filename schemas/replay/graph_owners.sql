-- Which operator and module each kernel of a launched CUDA or HIP graph belongs to, by the recorded capture of the graph.
--
-- A launch of a graph runs its kernels, copies and fills in the order in which they were captured: in that of their node numbers, or of their starts where
-- all ran on one stream. A capture with as many launch calls is taken from the same trace, else from a trace in which a graph ran the same kernels with
-- the same grids in the same order, else from a trace of the same run; not one whose calls name other kernels, as ROCm records them. Where several
-- captures fit and differ, what they differ in is NULL. Where none fits, the only one with as many kernels is taken: a fill of no bytes is called and is
-- none; copies and fills between two kernels then have a call where as many were called there. In no order.
--
-- Columns:
--   trace_id, trace, launch_index, name, duration_ns: as in kernels
--   graph_launch BIGINT: api_index of the call that launched the graph.
--   position BIGINT: Which of the activities of that launch it is, from 0.
--   op VARCHAR: Operator that was captured there.
--   call_id: as in ops
--   call_ordinal, call_kernels: as in captured_calls
--   module, python_line: as in ops
--   captures BIGINT: How many captures fit.
--   capture_trace_id VARCHAR: Trace of the capture; NULL where captures of several traces fit.
--   capture_trace VARCHAR: Name of that trace.
--   op_id BIGINT: The captured call of the operator, in ops of that trace; NULL where several captures fit.
--   capture_call BIGINT: The captured launch call, in api_calls of that trace; NULL where several captures fit.
--   confidence DOUBLE: How sure this is, 0 to 1.
--   evidence VARCHAR: What speaks for it.
-- Example:
--   SELECT trace, module, op, count(*) AS n, sum(duration_ns) AS total_ns FROM graph_owners GROUP BY ALL ORDER BY total_ns DESC;
CREATE OR REPLACE VIEW graph_owners AS
WITH _placed AS (
    SELECT
        l.trace_id,
        t.name AS trace,
        t.run,
        l.launch_index,
        n.name,
        l.duration_ns,
        l.api_index AS graph_launch,
        -- ROCm runs copies and fills as kernels of its own, which the captured call does not name.
        CASE WHEN l.kind = 'kernel' AND NOT starts_with(n.name, '__amd_rocclr_') THEN n.name END AS captured_name,
        hash(s.name_id, s.grid_x, s.grid_y, s.grid_z, s.block_x, s.block_y, s.block_z, s.bytes) AS identity,
        count(*) OVER graph AS calls,
        count(l.graph_node_id) OVER graph = count(*) OVER graph AS has_nodes,
        min(l.stream) OVER graph = max(l.stream) OVER graph AS is_ordered,
        row_number() OVER (graph ORDER BY l.graph_node_id, l.start_ns, l.launch_index) - 1 AS node_position,
        row_number() OVER (graph ORDER BY l.start_ns, l.launch_index) - 1 AS start_position
    FROM launches AS l
    INNER JOIN traces AS t USING (trace_id)
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS n USING (name_id)
    WHERE
        l.launch_status = 'graph'
        AND l.api_index IS NOT NULL
        AND l.kind <> 'graph'
        AND EXISTS (SELECT 1 FROM api_calls WHERE contains(name, 'BeginCapture'))
    WINDOW graph AS (PARTITION BY l.trace_id, l.api_index)
),

_run AS (
    SELECT *, CASE WHEN has_nodes THEN node_position ELSE start_position END AS position FROM _placed WHERE has_nodes OR is_ordered
),

_numbered AS (
    SELECT
        *,
        captured_name IS NULL AS is_memory,
        count(captured_name) OVER graph AS kernels,
        count(captured_name) OVER (graph ORDER BY position) - CASE WHEN captured_name IS NULL THEN 0 ELSE 1 END AS before
    FROM _run
    WINDOW graph AS (PARTITION BY trace_id, graph_launch)
),

_in_gaps AS (
    SELECT
        *,
        CASE WHEN is_memory THEN row_number() OVER (gap ORDER BY position) ELSE 0 END AS memory,
        CASE WHEN is_memory THEN count(*) OVER gap ELSE 0 END AS between
    FROM _numbered
    WINDOW gap AS (PARTITION BY trace_id, graph_launch, before, is_memory)
),

_graphs AS (
    SELECT
        trace_id,
        run,
        graph_launch,
        calls,
        kernels,
        hash(list(identity ORDER BY position)) AS sequence,
        hash(list(captured_name ORDER BY position) FILTER (captured_name IS NOT NULL)) AS names
    FROM _numbered
    GROUP BY ALL
),

_calls AS (SELECT * FROM _captured_sources),

_totals AS (SELECT source, calls, kernels, names, max(captures) AS captures FROM _calls GROUP BY ALL),

_sources AS (SELECT *, sum(captures) OVER (PARTITION BY source, kernels, names) = 1 AS is_only FROM _totals),

_traces AS (
    SELECT trace_id, graph_launch, calls, kernels, names, trace_id AS source, 1 AS way FROM _graphs
    UNION ALL
    SELECT g.trace_id, g.graph_launch, g.calls, g.kernels, g.names, o.trace_id, 2
    FROM _graphs AS g
    INNER JOIN _graphs AS o ON g.sequence = o.sequence AND g.trace_id <> o.trace_id
    UNION ALL
    SELECT trace_id, graph_launch, calls, kernels, names, 'run ' || run, 3 FROM _graphs
),

_fitting AS (
    SELECT g.trace_id, g.graph_launch, g.way, c.source, c.calls, c.kernels, c.names, g.calls = c.calls AS is_whole
    FROM _traces AS g
    INNER JOIN
        _sources AS c
        ON
            g.source = c.source
            AND g.kernels = c.kernels
            AND (g.calls = c.calls OR (c.is_only AND g.kernels > 0))
            AND coalesce(c.names = g.names, TRUE)
),

_chosen AS (
    SELECT *
    FROM _fitting
    QUALIFY row_number() OVER (PARTITION BY trace_id, graph_launch ORDER BY is_whole DESC, way, source, names NULLS LAST) = 1
)

SELECT
    r.trace_id,
    r.trace,
    r.launch_index,
    r.name,
    r.duration_ns,
    r.graph_launch,
    r.position,
    c.op,
    c.call_id,
    c.call_ordinal,
    c.call_kernels,
    c.module,
    c.python_line,
    c.captures,
    c.capture_trace_id,
    c.capture_trace,
    c.op_id,
    c.capture_call,
    CASE w.way WHEN 1 THEN 0.99::DOUBLE WHEN 2 THEN 0.98::DOUBLE ELSE 0.9::DOUBLE END AS confidence,
    format(
        'call {:,} of {:,} of {} in {}{}{}',
        c.position + 1,
        c.calls,
        CASE WHEN c.captures = 1 THEN 'the capture' ELSE c.captures || ' captures' END,
        coalesce(c.capture_trace, c.source),
        CASE w.way WHEN 2 THEN ', where a graph ran the same kernels in the same order' WHEN 3 THEN ', of the same run' ELSE '' END,
        CASE WHEN w.names IS NULL THEN '' ELSE '; its calls name the same kernels' END
    ) AS evidence
FROM _in_gaps AS r
INNER JOIN _chosen AS w ON r.trace_id = w.trace_id AND r.graph_launch = w.graph_launch
INNER JOIN
    _calls AS c
    ON
        w.source = c.source
        AND w.calls = c.calls
        AND w.kernels = c.kernels
        AND w.names IS NOT DISTINCT FROM c.names
        AND CASE
            WHEN w.is_whole THEN r.position = c.position
            ELSE r.before = c.before AND r.memory = c.memory AND r.between = c.between
        END;
