-- The counters of each signature: measured on its own profiled launches, on its replayed calls, or else on those of its matches in other traces.
--
-- The best method that leads to any counts, and of what it finds those of the same run, if there are any. Of replays in several states of the caches the
-- one nearest to a program counts, metric by metric: in context, mixed, warm, cold.
--
-- Columns:
--   signature_id: as in signature_matches
--   metric, unit: as in metrics
--   mean DOUBLE: Mean over the profiled launches, in unit.
--   min DOUBLE: Smallest value of a launch.
--   max DOUBLE: Largest value of a launch.
--   launches BIGINT: Profiled launches with this metric.
--   method VARCHAR: own (measured on this signature), replay (on its calls, run again), launch_key or match_name (on signatures that match so).
--   candidates BIGINT: Number of signatures that the launches belong to; with several, the figures mix launches that may differ.
--   measured_ids VARCHAR[]: The signatures that these launches belong to.
--   gpu VARCHAR: Model of GPU that they were measured on; several with commas between.
--   cache VARCHAR: State of the caches in the replay: in context, mixed, warm or cold; NULL where they were measured on a program.
-- Example:
--   SELECT signature_id, mean, launches, method, candidates FROM signature_counters WHERE metric = 'gpu__time_duration.sum';
CREATE OR REPLACE VIEW signature_counters AS
WITH profiled AS (
    SELECT
        l.trace_id,
        l.launch_index,
        l.signature_id,
        t.kind = 'replay' AS is_replay,
        CASE WHEN t.kind = 'replay' THEN t.metadata->>'cache' END AS cache,
        coalesce(d.gpu, d.name) AS gpu
    FROM launches AS l
    INNER JOIN traces AS t USING (trace_id)
    LEFT JOIN devices AS d ON l.trace_id = d.trace_id AND l.device = d.device AND l.process IS NOT DISTINCT FROM d.process
    WHERE
        (l.timing = 'profiled' OR l.quality LIKE '%counters_collected%')
        AND l.is_repeat IS NOT TRUE
        AND l.trace_id IN (SELECT trace_id FROM launch_metrics WHERE value IS NOT NULL)
),

pairs AS (
    SELECT signature_id, signature_id AS other_id, 'own' AS method, 0 AS distance
    FROM profiled
    WHERE NOT is_replay
    UNION
    SELECT signature_id, signature_id AS other_id, 'replay' AS method, 1 AS distance
    FROM profiled
    WHERE is_replay
    UNION ALL
    SELECT
        signature_id,
        other_id,
        method,
        CASE method WHEN 'launch_key' THEN 2 ELSE 3 END AS distance
    FROM signature_matches
    WHERE method <> 'signature'
),

reachable AS (
    SELECT *
    FROM pairs
    WHERE other_id IN (SELECT signature_id FROM profiled)
    QUALIFY distance = min(distance) OVER (PARTITION BY signature_id)
),

runs AS (
    SELECT DISTINCT r.signature_id, t.run
    FROM rollups AS r
    INNER JOIN traces AS t USING (trace_id)
),

nearest AS (
    SELECT p.signature_id, any_value(p.method) AS method, list(p.other_id ORDER BY p.other_id) AS measured_ids
    FROM (
        SELECT q.signature_id, q.other_id, q.method
        FROM reachable AS q
        LEFT JOIN (
            SELECT DISTINCT pair.signature_id, pair.other_id
            FROM reachable AS pair
            INNER JOIN runs AS a ON pair.signature_id = a.signature_id
            INNER JOIN runs AS b ON pair.other_id = b.signature_id AND a.run = b.run
        ) AS together ON q.signature_id = together.signature_id AND q.other_id = together.other_id
        QUALIFY (together.other_id IS NULL) = min(together.other_id IS NULL) OVER (PARTITION BY q.signature_id)
    ) AS p
    GROUP BY p.signature_id
),

found AS (
    SELECT n.signature_id, n.other_id, m.metric, m.unit, m.value, l.trace_id, l.launch_index, l.gpu, l.cache
    FROM (SELECT signature_id, method, unnest(measured_ids) AS other_id FROM nearest) AS n
    INNER JOIN profiled AS l ON l.signature_id = n.other_id AND (n.method <> 'own' OR NOT l.is_replay)
    INNER JOIN launch_metrics AS m ON l.trace_id = m.trace_id AND l.launch_index = m.launch_index
    WHERE m.value IS NOT NULL AND m.instance IS NULL
    QUALIFY _cache_order(l.cache) = min(_cache_order(l.cache)) OVER (PARTITION BY n.signature_id, m.metric)
),

counted AS (
    SELECT
        signature_id,
        metric,
        min(unit) AS unit,
        avg(value) AS mean,
        min(value) AS min,
        max(value) AS max,
        count(DISTINCT (trace_id, launch_index)) AS launches,
        string_agg(DISTINCT gpu, ', ' ORDER BY gpu) AS gpu,
        any_value(cache) AS cache,
        list(DISTINCT other_id ORDER BY other_id) AS measured_ids
    FROM found
    GROUP BY signature_id, metric
)

SELECT
    c.signature_id,
    c.metric,
    c.unit,
    c.mean,
    c.min,
    c.max,
    c.launches,
    n.method,
    len(c.measured_ids) AS candidates,
    c.measured_ids,
    c.gpu,
    c.cache
FROM counted AS c
INNER JOIN nearest AS n ON c.signature_id = n.signature_id;
