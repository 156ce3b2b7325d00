-- GPU time by module of the network, as a tree: what each module launched itself, and with all that it called.
--
-- Modules are those whose frames were recorded (PyTorch with with_stack=True); a backward operator belongs to the module of its forward call. Launches outside of all
-- modules have a row without a parent. In the order in which modules ran first.
--
-- Arguments:
--   source: A relation with the columns of `kernels`.
-- Columns:
--   trace: as in kernels
--   path VARCHAR: The modules around it and itself, with dots between.
--   module VARCHAR: The module itself. Backward launches count with that of their forward call.
--   depth BIGINT: Number of modules around it.
--   n BIGINT: Launches of it and of what it calls.
--   self_ns BIGINT [ns]: Summed duration of its own launches.
--   total_ns BIGINT [ns]: The same with those of the modules below.
--   share_pct DOUBLE [%]: Share of total_ns in the summed durations of the trace.
--   forward_ns BIGINT [ns]: Of total_ns, what modules launched in their forward call, and operators that a backward call names. This and the two below are NULL where
--     of no launch is known which of them it is; what they lack to total_ns is not known either.
--   backward_ns BIGINT [ns]: What automatic differentiation launched.
--   optimizer_ns BIGINT [ns]: What an optimizer launched.
--   python_line VARCHAR: Line of most of its own time; NULL where only lines of PyTorch are known.
-- Example:
--   SELECT path, self_ns, total_ns, forward_ns, backward_ns FROM module_tree() WHERE depth < 3;
CREATE OR REPLACE MACRO module_tree(source := 'kernels') AS TABLE
WITH RECURSIVE _launched AS MATERIALIZED (
    SELECT trace, trace_id, op_id, module, python_line, range_path, start_ns, duration_ns
    FROM query_table(source)
    WHERE timing = 'timeline' AND duration_ns IS NOT NULL
),

_frames AS MATERIALIZED (
    SELECT trace_id, range_id, parent_id, start_ns, CASE WHEN starts_with(name, 'nn.Module: ') THEN name[12:] END AS module
    FROM ranges
    WHERE kind = 'python_function' AND trace_id IN (SELECT trace_id FROM _launched)
),

_outward AS (
    SELECT trace_id, range_id AS inner_id, parent_id AS at FROM _frames WHERE module IS NOT NULL
    UNION ALL
    SELECT o.trace_id, o.inner_id, f.parent_id
    FROM _outward AS o
    INNER JOIN _frames AS f ON o.trace_id = f.trace_id AND o.at = f.range_id
    WHERE f.module IS NULL
),

-- Of a module that several call, the one that does so most often.
_called AS (
    SELECT i.trace_id, i.module, mode(a.module ORDER BY a.module) AS parent, min(i.start_ns) AS first_ns
    FROM _frames AS i
    LEFT JOIN (
        SELECT o.trace_id, o.inner_id, f.module
        FROM _outward AS o
        INNER JOIN _frames AS f ON o.trace_id = f.trace_id AND o.at = f.range_id AND f.module IS NOT NULL
    ) AS a ON i.trace_id = a.trace_id AND i.range_id = a.inner_id
    WHERE i.module IS NOT NULL
    GROUP BY i.trace_id, i.module
),

_paths AS (
    SELECT trace_id, module, [module] AS path, first_ns FROM _called WHERE parent IS NULL
    UNION ALL
    SELECT c.trace_id, c.module, list_append(p.path, c.module), c.first_ns
    FROM _paths AS p
    INNER JOIN _called AS c ON p.trace_id = c.trace_id AND p.module = c.parent
    WHERE NOT list_contains(p.path, c.module)
),

-- Operators that went backward later: these ran forward.
_forwards AS (SELECT DISTINCT trace_id, forward_op_id AS op_id FROM ops WHERE trace_id IN (SELECT trace_id FROM _launched) AND forward_op_id IS NOT NULL),

-- From an operator outwards, to the one whose forward call is known.
_operators AS (
    SELECT trace_id, op_id, op_id AS at FROM (SELECT DISTINCT trace_id, op_id FROM _launched WHERE op_id IS NOT NULL)
    UNION ALL
    SELECT p.trace_id, p.op_id, o.parent_id
    FROM _operators AS p
    INNER JOIN ops AS o ON p.trace_id = o.trace_id AND p.at = o.op_id
    WHERE o.parent_id IS NOT NULL
),

_origins AS (
    SELECT
        p.trace_id,
        p.op_id,
        bool_or(o.forward_op_id IS NOT NULL OR starts_with(o.name, 'autograd::engine')) AS is_backward,
        bool_or(starts_with(o.name, 'Optimizer.step')) AS is_optimizer,
        bool_or(w.op_id IS NOT NULL) AS is_forward,
        any_value(f.module) AS module
    FROM _operators AS p
    INNER JOIN ops AS o ON p.trace_id = o.trace_id AND p.at = o.op_id
    LEFT JOIN ops AS f ON o.trace_id = f.trace_id AND o.forward_op_id = f.op_id
    LEFT JOIN _forwards AS w ON o.trace_id = w.trace_id AND o.op_id = w.op_id
    GROUP BY p.trace_id, p.op_id
),

_own AS (
    SELECT
        l.trace,
        l.trace_id,
        coalesce(l.module, o.module) AS module,
        CASE
            WHEN o.is_optimizer OR contains(l.range_path, 'Optimizer.step') THEN 'optimizer'
            WHEN o.is_backward THEN 'backward'
            WHEN o.is_forward OR l.module IS NOT NULL THEN 'forward'
        END AS direction,
        l.python_line,
        l.start_ns,
        l.duration_ns
    FROM _launched AS l
    LEFT JOIN _origins AS o ON l.trace_id = o.trace_id AND l.op_id = o.op_id
),

_spent AS (
    SELECT
        o.trace,
        coalesce(p.path, [coalesce(o.module, '(outside of modules)')]) AS path,
        o.direction,
        o.python_line,
        coalesce(p.first_ns, min(o.start_ns)) AS first_ns,
        count(*) AS n,
        sum(o.duration_ns) AS ns
    FROM _own AS o
    LEFT JOIN _paths AS p ON o.trace_id = p.trace_id AND o.module = p.module
    GROUP BY o.trace, p.path, o.module, o.direction, o.python_line, p.first_ns
),

_spread AS (
    SELECT trace, path[:level] AS path, level = length(path) AS is_own, direction, python_line, first_ns, n, ns
    FROM _spent, unnest(range(1, length(path) + 1)) AS levels (level)
)

SELECT
    trace,
    array_to_string(path, '.') AS path,
    path[-1] AS module,
    length(path) - 1 AS depth,
    sum(n)::BIGINT AS n,
    coalesce(sum(ns) FILTER (is_own), 0)::BIGINT AS self_ns,
    sum(ns)::BIGINT AS total_ns,
    100 * sum(ns) / sum(coalesce(sum(ns) FILTER (is_own), 0)) OVER (PARTITION BY trace) AS share_pct,
    CASE WHEN count(direction) > 0 THEN coalesce(sum(ns) FILTER (direction = 'forward'), 0)::BIGINT END AS forward_ns,
    CASE WHEN count(direction) > 0 THEN coalesce(sum(ns) FILTER (direction = 'backward'), 0)::BIGINT END AS backward_ns,
    CASE WHEN count(direction) > 0 THEN coalesce(sum(ns) FILTER (direction = 'optimizer'), 0)::BIGINT END AS optimizer_ns,
    arg_max(python_line, (ns, python_line)) FILTER (is_own AND NOT regexp_matches(python_line, '(^|/)(torch|triton)/|^<')) AS python_line
FROM _spread
GROUP BY trace, path
ORDER BY trace, min(first_ns), path;
