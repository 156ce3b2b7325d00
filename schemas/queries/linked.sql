-- What the trace $trace_id was linked with, surest first.
SELECT t.name AS other, t.rank, l.relation, l.evidence, own.run, own.run = t.run AS joined
FROM (
    SELECT other_id, relation, method, evidence, score FROM trace_links WHERE trace_id = $trace_id
    UNION ALL
    SELECT trace_id, relation, method, evidence, score FROM trace_links WHERE other_id = $trace_id
) AS l
INNER JOIN traces AS t ON l.other_id = t.trace_id
CROSS JOIN (SELECT run FROM traces WHERE trace_id = $trace_id) AS own
ORDER BY l.relation, l.score DESC, t.name;
