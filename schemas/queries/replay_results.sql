-- Results of a run by category and route, and in total: how much of the launches and of the time came out the same, and what the
-- mean replayed durations predict for the recorded launches.
SELECT
    coalesce(n.category, 'TOTAL') AS category,
    r.route,
    count(DISTINCT r.signature_id) AS signatures,
    sum(r.launches)::BIGINT AS launches,
    sum(r.recorded_total_ns)::BIGINT AS recorded_ns,
    100 * sum(r.recorded_total_ns) / (SELECT sum(a.recorded_total_ns) FROM replays AS a WHERE a.run_id = $run_id) AS share_pct,
    100 * coalesce(sum(r.launches) FILTER (r.grade = 'L0'), 0) / sum(r.launches) AS l0_launches_pct,
    100 * coalesce(sum(r.recorded_total_ns) FILTER (r.grade = 'L0'), 0) / sum(r.recorded_total_ns) AS l0_time_pct,
    100 * coalesce(sum(r.recorded_total_ns) FILTER (r.grade IN ('L0', 'L1')), 0) / sum(r.recorded_total_ns) AS l0_l1_time_pct,
    (sum(r.recorded_total_ns) FILTER (r.grade IN ('L0', 'L1') AND r.mean_ns IS NOT NULL))::BIGINT AS compared_ns,
    (sum(r.mean_ns * r.launches) FILTER (r.grade IN ('L0', 'L1') AND r.mean_ns IS NOT NULL))::BIGINT AS predicted_ns,
    100 * predicted_ns / compared_ns - 100 AS error_pct,
    string_agg(DISTINCT r.grade || ': ' || r.reason, '; ') FILTER (r.grade NOT IN ('L0', 'L1')) AS reasons
FROM replays AS r
INNER JOIN signatures AS s USING (signature_id)
INNER JOIN kernel_names AS n USING (name_id)
WHERE r.run_id = $run_id
GROUP BY GROUPING SETS ((n.category, r.route), ())
ORDER BY grouping(n.category), share_pct DESC, category, r.route;
