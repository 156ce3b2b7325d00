-- Kernels, copies and fills of launched graphs in the order in which they were captured, where that is known: `position`, from 0.
--
-- `kernels` of them are kernels; `before` of these are before one, which is the `memory`-th copy or fill behind them (0: a kernel) of `between`.
CREATE OR REPLACE VIEW _graph_activities AS
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
)

SELECT
    *,
    CASE WHEN is_memory THEN row_number() OVER (gap ORDER BY position) ELSE 0 END AS memory,
    CASE WHEN is_memory THEN count(*) OVER gap ELSE 0 END AS between
FROM _numbered
WINDOW gap AS (PARTITION BY trace_id, graph_launch, before, is_memory);
