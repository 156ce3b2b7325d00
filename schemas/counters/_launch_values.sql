-- One value of each launch and counter: of several sections that print it the most exact one, then that of the first pass. Single instances are left
-- out.
CREATE OR REPLACE VIEW _launch_values AS
SELECT
    trace,
    trace_id,
    launch_index,
    metric,
    arg_min(value, (coalesce(precision, 0), pass, value)) AS value
FROM launch_metrics
WHERE value IS NOT NULL AND launch_index IS NOT NULL AND instance IS NULL
GROUP BY trace, trace_id, launch_index, metric;
