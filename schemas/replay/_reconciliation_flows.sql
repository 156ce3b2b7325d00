-- How the device went from launch to launch in each workload of a trace, and how much ran at once, over the launches of `launched`, with columns of
-- _reconciliation_launches. A gap belongs to the device where the launch was queued behind it; `held_up` ones are left out of the sums.
CREATE OR REPLACE MACRO _reconciliation_flows(launched) AS TABLE
SELECT
    trace_id,
    workload,
    count(*) AS n,
    sum(busy_ns)::DOUBLE AS busy_ns,
    sum(duration_ns)::DOUBLE AS duration_ns,
    count(*) FILTER (NOT beside) AS alone,
    count(*) FILTER (queued AND gap_ns > 0) AS queued_gaps,
    median(gap_ns) FILTER (queued AND gap_ns > 0) AS queued_gap_ns,
    sum(gap_ns) FILTER (queued AND NOT held_up)::DOUBLE AS queued_total_ns,
    count(*) FILTER (NOT (queued AND held_up)) AS flowing,
    count(*) FILTER (category = 'COMMUNICATION') AS exchanges,
    count(*) FILTER (category = 'COMMUNICATION' AND wait_ns IS NULL) AS unmatched,
    sum(wait_ns)::DOUBLE AS waits_ns,
    count(DISTINCT device) AS devices,
    CASE WHEN any_value(marked) THEN count(DISTINCT iteration_start_ns) END AS iterations
FROM query_table(launched)
GROUP BY trace_id, workload
ORDER BY ALL;
