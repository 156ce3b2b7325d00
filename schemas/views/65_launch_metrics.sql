-- The metrics of each launch, once: where several prints of one report hold a launch, each metric is that of the print with most digits, and
-- stands at the primary launch. `printed_trace_id` says which trace holds it.
CREATE OR REPLACE VIEW launch_metrics AS
WITH printed AS (
    SELECT
        coalesce(p.primary_trace_id, m.trace_id) AS launch_trace_id,
        coalesce(p.primary_launch_index, m.launch_index) AS primary_index,
        min(coalesce(m.precision, 0)) OVER print AS finest,
        m.*
    FROM metrics AS m
    LEFT JOIN launch_prints AS p ON m.trace_id = p.trace_id AND m.launch_index = p.launch_index
    WHERE m.trace_id IN (SELECT trace_id FROM launch_prints UNION SELECT primary_trace_id FROM launch_prints)
    WINDOW print AS (PARTITION BY m.trace_id, m.launch_index, m.metric)
)

SELECT
    trace_id,
    launch_index,
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
    trace_id AS printed_trace_id
FROM metrics
WHERE trace_id NOT IN (SELECT trace_id FROM launch_prints UNION SELECT primary_trace_id FROM launch_prints)
UNION ALL
SELECT
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
        PARTITION BY launch_trace_id, primary_index, metric ORDER BY value IS NULL AND text IS NULL, finest, trace_id <> launch_trace_id, trace_id
    ) = 1;
