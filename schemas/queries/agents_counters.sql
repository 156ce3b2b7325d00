-- Counters of the selected kernels, those with most time first.
WITH chosen AS (
    SELECT signature_id, any_value(short_name) AS kernel, sum(duration_ns) AS total_ns FROM selection GROUP BY signature_id
)

SELECT c.kernel, s.metric, s.unit, s.mean, s.min, s.max, s.launches, s.method, s.gpu, s.cache, s.signature_id
FROM signature_counters AS s
INNER JOIN chosen AS c USING (signature_id)
ORDER BY c.total_ns DESC, s.signature_id, s.metric;
