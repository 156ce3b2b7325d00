-- The operators that launched kernels of a name, or, where none is known, of the same library, category and operation: the one with most
-- launches, and its share of them.
WITH linked AS (
    SELECT
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

by_name AS (
    SELECT match_name, op, sum(n) AS n, sum(n) / sum(sum(n)) OVER (PARTITION BY match_name) AS share
    FROM linked
    GROUP BY match_name, op
    QUALIFY row_number() OVER (PARTITION BY match_name ORDER BY sum(n) DESC, op) = 1
),

by_operation AS (
    SELECT library, category, operation, op, sum(n) AS n, sum(n) / sum(sum(n)) OVER (PARTITION BY library, category, operation) AS share
    FROM linked
    WHERE operation IS NOT NULL
    GROUP BY library, category, operation, op
    QUALIFY row_number() OVER (PARTITION BY library, category, operation ORDER BY sum(n) DESC, op) = 1
),

wanted AS (
    SELECT DISTINCT s.signature_id, n.match_name, n.library, n.category, n.operation
    FROM rollups AS r
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS n USING (name_id)
    WHERE r.trace_id = $trace_id AND s.kind = 'kernel' AND s.level <> 'call' AND s.op IS NULL
)

SELECT
    w.signature_id,
    w.library,
    w.operation,
    coalesce(a.op, o.op) AS op,
    coalesce(a.share, o.share) AS share,
    CASE WHEN a.op IS NOT NULL THEN 'name' WHEN o.op IS NOT NULL THEN 'operation' END AS method
FROM wanted AS w
LEFT JOIN by_name AS a USING (match_name)
LEFT JOIN by_operation AS o ON w.library = o.library AND w.category = o.category AND w.operation = o.operation
ORDER BY w.signature_id;
