-- Results of a run by category and route, and in total: how much of the launches and of the time came out the same, what the mean
-- replayed durations predict for the recorded launches, and their energy. Errors are half 95 % intervals: those of calls in quadrature
-- (kernels of one call share its error), then what all have in common: the drift, and for above_gap_mj the gap power.
WITH rows AS (
    SELECT
        r.*,
        n.category,
        r.grade IN ('L0', 'L1') AND r.energy_mj IS NOT NULL AS weighed,
        sum(r.launches * (r.energy_high_mj - r.energy_low_mj) / 2) FILTER (r.grade IN ('L0', 'L1')) OVER item AS item_error,
        sum(r.launches * (r.above_gap_high_mj - r.above_gap_low_mj) / 2) FILTER (r.grade IN ('L0', 'L1')) OVER item AS item_gap_error,
        row_number() OVER (PARTITION BY r.item_id, n.category, r.route ORDER BY r.ordinal) = 1 AS first_of_item
    FROM replays AS r
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS n USING (name_id)
    WHERE r.run_id = $run_id
    WINDOW item AS (PARTITION BY r.item_id, n.category, r.route)
),

shared AS (
    SELECT
        coalesce(max(gap_power_error_w), 0) AS gap_error_w,
        1.96 * coalesce(max(energy_drift), 0) AS drift_error
    FROM replay_runs
    WHERE run_id = $run_id
)

SELECT
    coalesce(r.category, 'TOTAL') AS category,
    r.route,
    count(DISTINCT r.signature_id) AS signatures,
    sum(r.launches)::BIGINT AS launches,
    sum(r.recorded_total_ns)::BIGINT AS recorded_ns,
    100 * sum(r.recorded_total_ns) / (SELECT sum(a.recorded_total_ns) FROM rows AS a) AS share_pct,
    100 * coalesce(sum(r.launches) FILTER (r.grade = 'L0'), 0) / sum(r.launches) AS l0_launches_pct,
    100 * coalesce(sum(r.recorded_total_ns) FILTER (r.grade = 'L0'), 0) / sum(r.recorded_total_ns) AS l0_time_pct,
    100 * coalesce(sum(r.recorded_total_ns) FILTER (r.grade IN ('L0', 'L1')), 0) / sum(r.recorded_total_ns) AS l0_l1_time_pct,
    (sum(r.recorded_total_ns) FILTER (r.grade IN ('L0', 'L1') AND r.mean_ns IS NOT NULL))::BIGINT AS compared_ns,
    (sum(r.mean_ns * r.launches) FILTER (r.grade IN ('L0', 'L1') AND r.mean_ns IS NOT NULL))::BIGINT AS predicted_ns,
    100 * predicted_ns / compared_ns - 100 AS error_pct,
    sum(r.energy_mj * r.launches) FILTER (r.weighed) AS energy_mj,
    sqrt(
        sum(r.item_error ^ 2) FILTER (r.first_of_item)
        + (any_value(shared.drift_error) * sum(r.above_gap_mj * r.launches) FILTER (r.weighed)) ^ 2
    ) AS energy_error_mj,
    sum(r.above_gap_mj * r.launches) FILTER (r.weighed) AS above_gap_mj,
    sqrt(
        sum(r.item_gap_error ^ 2) FILTER (r.first_of_item)
        + (any_value(shared.drift_error) * sum(r.above_gap_mj * r.launches) FILTER (r.weighed)) ^ 2
        + (any_value(shared.gap_error_w) * sum(r.mean_ns * r.launches) FILTER (r.weighed) / 1e6) ^ 2
    ) AS above_gap_error_mj,
    100 * coalesce(sum(r.recorded_total_ns) FILTER (r.weighed), 0) / sum(r.recorded_total_ns) AS energy_time_pct,
    string_agg(DISTINCT r.grade || ': ' || r.reason, '; ') FILTER (r.grade NOT IN ('L0', 'L1')) AS reasons,
    string_agg(DISTINCT r.energy_reason, '; ') FILTER (r.grade IN ('L0', 'L1') AND r.energy_mj IS NULL) AS energy_reasons
FROM rows AS r
CROSS JOIN shared
GROUP BY GROUPING SETS ((r.category, r.route), ())
ORDER BY grouping(r.category), share_pct DESC, category, r.route;
