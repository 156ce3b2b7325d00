-- The metrics of each launch, once: of several prints of one report those with most digits.
--
-- Where several exports hold a launch, its metrics belong to the primary launch, and `printed_trace_id` says which trace holds them.
--
-- Columns:
--   trace: as in kernels
--   trace_id VARCHAR: Content id of the trace that holds the primary launch.
--   launch_index BIGINT: The primary launch, in launches; NULL for metrics of ranges and sums.
--   range_id, metric, value, text, unit, precision, instance, pass, signature_id, source_metric, section: as in metrics
--   printed_trace_id VARCHAR: Content id of the trace that printed it.
-- Example:
--   SELECT trace, launch_index, metric, value, unit FROM launch_metrics WHERE metric LIKE 'dram__bytes%';
CREATE OR REPLACE VIEW launch_metrics AS
-- Which traces have prints is asked of `traces` and not of the metrics, and the names of traces are in each partition: so a condition on `trace`
-- reaches the scan of the metrics. An id is never the name of a metric: that condition keeps DuckDB 2 from taking the two scans for one, which would
-- read all metrics.
WITH paired AS (
    SELECT trace_id, primary_trace_id FROM launch_prints
    UNION
    SELECT trace_id, trace_id FROM launch_prints
    UNION
    SELECT primary_trace_id, primary_trace_id FROM launch_prints
),

printed AS (
    SELECT
        t.name AS trace,
        t.trace_id AS launch_trace_id,
        coalesce(p.primary_launch_index, m.launch_index) AS primary_index,
        min(coalesce(m.precision, 0)) OVER print AS finest,
        m.*
    FROM metrics AS m
    INNER JOIN (
        SELECT traces.name, traces.trace_id, paired.trace_id AS held_by
        FROM paired
        INNER JOIN traces ON paired.primary_trace_id = traces.trace_id
    ) AS t ON m.trace_id = t.held_by
    LEFT JOIN launch_prints AS p ON m.trace_id = p.trace_id AND m.launch_index = p.launch_index
    WHERE m.trace_id <> m.metric AND coalesce(t.trace_id = p.primary_trace_id, t.trace_id = m.trace_id)
    WINDOW print AS (PARTITION BY t.name, t.trace_id, m.trace_id, m.launch_index, m.metric)
)

SELECT
    t.name AS trace,
    m.trace_id,
    m.launch_index,
    m.range_id,
    m.metric,
    m.value,
    m.text,
    m.unit,
    m.precision,
    m.instance,
    m.pass,
    m.signature_id,
    m.source_metric,
    m.section,
    m.trace_id AS printed_trace_id
FROM metrics AS m
INNER JOIN traces AS t ON m.trace_id = t.trace_id
WHERE t.trace_id NOT IN (SELECT trace_id FROM paired)
UNION ALL
SELECT
    trace,
    launch_trace_id,
    primary_index,
    range_id,
    metric,
    value,
    text,
    unit,
    precision,
    instance,
    pass,
    signature_id,
    source_metric,
    section,
    trace_id
FROM printed
QUALIFY
    launch_index IS NULL
    OR dense_rank() OVER (
        PARTITION BY trace, launch_trace_id, primary_index, metric
        ORDER BY value IS NULL AND text IS NULL, finest, trace_id <> launch_trace_id, trace_id
    ) = 1;
