-- tb_plugin merges an operator with its only child where both have one name: the child is no call of its own.
WITH inner_ops AS (
    SELECT
        ops.name,
        parent.name AS parent_name,
        count(*) OVER (PARTITION BY ops.parent_id) AS siblings
    FROM ops
    INNER JOIN traces USING (trace_id)
    LEFT JOIN ops AS parent ON parent.trace_id = ops.trace_id AND parent.op_id = ops.parent_id
    WHERE traces.name = $trace
),

calls AS (
    SELECT count(*) AS calls
    FROM inner_ops
    WHERE name = $op AND NOT (coalesce(parent_name, '') = name AND siblings = 1)
),

launched AS (
    SELECT coalesce(sum(duration_ns), 0) / 1000 AS us
    FROM kernels
    WHERE trace = $trace AND op = $op
)

SELECT calls.calls, launched.us
FROM calls
CROSS JOIN launched;
