-- Which operator and module each kernel of a launched CUDA or HIP graph belongs to, by the recorded capture of the graph.
--
-- A launch of a graph runs its kernels, copies and fills in the order in which they were captured: in that of their node numbers, or of their starts where
-- all ran on one stream. A capture with as many launch calls is taken from the same trace, else from a trace in which a graph ran the same kernels with
-- the same grids in the same order, else from a trace of the same run. Where several captures fit and differ, what they differ in is NULL. In no order.
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

_graphs AS (
    SELECT trace_id, run, graph_launch, calls, hash(list(identity ORDER BY position)) AS sequence FROM _run GROUP BY ALL
),

-- A trace has captures, and so has its run: what several of these differ in is not known of a graph.
_captured AS (
    SELECT *, trace_id AS source FROM captured_calls
    UNION ALL
    SELECT *, 'run ' || run FROM captured_calls WHERE run IS NOT NULL
),

_calls AS (
    SELECT
        source,
        calls,
        position,
        count(*) AS captures,
        CASE WHEN count(DISTINCT trace_id) = 1 THEN min(trace_id) END AS capture_trace_id,
        CASE WHEN count(DISTINCT trace_id) = 1 THEN min(trace) END AS capture_trace,
        CASE WHEN count(DISTINCT coalesce(op, '')) = 1 THEN min(op) END AS op,
        CASE WHEN count(DISTINCT coalesce(call_id, '')) = 1 THEN min(call_id) END AS call_id,
        CASE WHEN count(DISTINCT coalesce(call_id, '')) = 1 THEN min(call_ordinal) END AS call_ordinal,
        CASE WHEN count(DISTINCT coalesce(call_id, '')) = 1 THEN min(call_kernels) END AS call_kernels,
        CASE WHEN count(DISTINCT coalesce(module, '')) = 1 THEN min(module) END AS module,
        CASE WHEN count(DISTINCT coalesce(python_line, '')) = 1 THEN min(python_line) END AS python_line,
        CASE WHEN count(*) = 1 THEN min(op_id) END AS op_id
    FROM _captured
    GROUP BY source, calls, position
),

_sources AS (SELECT DISTINCT source, calls FROM _calls),

_fitting AS (
    SELECT g.trace_id, g.graph_launch, g.calls, c.source, 1 AS way
    FROM _graphs AS g
    INNER JOIN _sources AS c ON g.trace_id = c.source AND g.calls = c.calls
    UNION ALL
    SELECT g.trace_id, g.graph_launch, g.calls, c.source, 2
    FROM _graphs AS g
    INNER JOIN _graphs AS o ON g.sequence = o.sequence AND g.trace_id <> o.trace_id
    INNER JOIN _sources AS c ON o.trace_id = c.source AND g.calls = c.calls
    UNION ALL
    SELECT g.trace_id, g.graph_launch, g.calls, c.source, 3
    FROM _graphs AS g
    INNER JOIN _sources AS c ON 'run ' || g.run = c.source AND g.calls = c.calls
),

_chosen AS (
    SELECT trace_id, graph_launch, calls, arg_min(source, (way, source)) AS source, min(way) AS way
    FROM _fitting
    GROUP BY ALL
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
    CASE w.way WHEN 1 THEN 0.99::DOUBLE WHEN 2 THEN 0.98::DOUBLE ELSE 0.9::DOUBLE END AS confidence,
    format(
        'call {:,} of {:,} of {} in {}{}',
        r.position + 1,
        r.calls,
        CASE WHEN c.captures = 1 THEN 'the capture' ELSE c.captures || ' captures' END,
        coalesce(c.capture_trace, c.source),
        CASE w.way WHEN 2 THEN ', where a graph ran the same kernels in the same order' WHEN 3 THEN ', of the same run' ELSE '' END
    ) AS evidence
FROM _run AS r
INNER JOIN _chosen AS w ON r.trace_id = w.trace_id AND r.graph_launch = w.graph_launch
INNER JOIN _calls AS c ON w.source = c.source AND w.calls = c.calls AND r.position = c.position;
