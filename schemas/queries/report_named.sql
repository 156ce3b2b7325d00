-- The traces that a name, run, label or pattern means, with their kinds.
SELECT t.name AS trace, t.kind
FROM traces AS t
INNER JOIN _traces_named($name) AS n USING (trace_id)
ORDER BY t.name;
