-- The operators of kernels that the trace $trace_id launched without one, where they are at least $sure: the one with most of the launches of
-- that name, or, where none is known, of the same library, category and operation; where nothing like it was ever recorded with its operator,
-- the one in the kernel name. Traces with at least the share $close of the kernel names of the trace come before others: they
-- are of the same model. The confidence is the share of those launches, times that of operators found this way that were the recorded
-- ones, over traces whose operators were hidden (docs/replay-without-calls.md).
WITH wanted AS (
    SELECT DISTINCT s.signature_id, n.match_name, n.library, n.category, n.operation
    FROM rollups AS r
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS n USING (name_id)
    WHERE r.trace_id = $trace_id AND s.kind = 'kernel' AND s.level <> 'call' AND s.op IS NULL
),

linked AS (
    SELECT
        r.trace_id,
        n.match_name,
        n.library,
        n.category,
        n.operation,
        s.op,
        sum(r.n)::BIGINT AS n
    FROM rollups AS r
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS n USING (name_id)
    WHERE s.op IS NOT NULL AND s.kind = 'kernel' AND r.origin = 'launches'
    GROUP BY ALL
),

all_names AS (
    SELECT DISTINCT n.match_name
    FROM rollups AS r
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS n USING (name_id)
    WHERE r.trace_id = $trace_id AND s.kind = 'kernel'
),

kin AS (
    SELECT trace_id
    FROM linked
    SEMI JOIN all_names USING (match_name)
    GROUP BY trace_id
    HAVING count(DISTINCT match_name) >= $close * (SELECT count(*) FROM all_names)
),

known AS (
    SELECT *, trace_id = $trace_id OR trace_id IN (SELECT trace_id FROM kin) AS related FROM linked
),

by_name AS (
    SELECT match_name, op, related, sum(n)::BIGINT AS n, sum(sum(n)) OVER (PARTITION BY match_name, related)::BIGINT AS of_n
    FROM known
    GROUP BY match_name, op, related
    QUALIFY row_number() OVER (PARTITION BY match_name ORDER BY related DESC, sum(n) DESC, op) = 1
),

by_operation AS (
    SELECT
        library,
        category,
        operation,
        op,
        related,
        sum(n)::BIGINT AS n,
        sum(sum(n)) OVER (PARTITION BY library, category, operation, related)::BIGINT AS of_n
    FROM known
    WHERE operation IS NOT NULL
    GROUP BY library, category, operation, op, related
    QUALIFY row_number() OVER (PARTITION BY library, category, operation ORDER BY related DESC, sum(n) DESC, op) = 1
),

voted AS (
    SELECT
        w.*,
        coalesce(a.op, o.op) AS op,
        coalesce(a.n, o.n) AS n,
        coalesce(a.of_n, o.of_n) AS of_n,
        CASE WHEN a.op IS NOT NULL THEN a.related ELSE o.related END AS related,
        CASE WHEN a.op IS NOT NULL THEN 'name' ELSE 'operation' END AS method
    FROM wanted AS w
    LEFT JOIN by_name AS a USING (match_name)
    LEFT JOIN by_operation AS o ON w.library = o.library AND w.category = o.category AND w.operation = o.operation
)

SELECT
    signature_id,
    op,
    'inherited' AS inferred_by,
    'operator by ' || method AS method,
    CASE method WHEN 'name' THEN 0.95::DOUBLE ELSE 0.85::DOUBLE END * n / of_n AS confidence,
    format(
        '{:,} of {:,} launches {} {}; no sizes',
        n,
        of_n,
        CASE method WHEN 'name' THEN 'of this kernel' ELSE format('of {}''s {} kernels', library, operation) END,
        CASE WHEN related THEN 'in traces with most of these kernels' ELSE 'elsewhere' END
    ) AS evidence
FROM voted
WHERE op IS NOT NULL AND confidence >= $sure
UNION ALL
SELECT
    signature_id,
    CASE
        WHEN operation IN ('fill', 'copy') THEN 'aten::' || operation || '_'
        WHEN operation = 'softmax' THEN 'aten::_softmax'
        ELSE 'aten::' || operation
    END,
    'inferred',
    'operator by grammar',
    0.8::DOUBLE,
    'the kernel name gives the operator, not its sizes'
FROM voted
WHERE
    op IS NULL
    AND 0.8 >= $sure
    AND library = 'PyTorch ATen'
    AND operation IN (
        'fill', 'where', 'copy', 'arange', 'cat', 'argmax', 'index_select', 'mean', 'cos', 'sin', 'neg', 'rsqrt', 'mul', 'add', 'pow', 'silu',
        'gather', 'softmax', 'gelu'
    );
