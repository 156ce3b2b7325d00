-- Results of a run by category and route, and in total: how much of the launches and of the time came out the same, what the mean
-- replayed durations predict for the recorded launches, and their energy. TOTAL is of all launches, but what came out and is predicted is
-- that of recorded calls alone (`own`); inherited and inferred calls have totals of their own. Errors are half 95 % intervals: those of
-- calls in quadrature (kernels of one call share its error), then what all have in common: the drift, and for dynamic_mj the launch-loop power.
-- A call that was tried for launches without one, and is not accepted, came out as a kernel and predicts nothing.
-- A collective was recorded with its waiting for other ranks and is replayed without: it is compared nowhere, and TOTAL predicts the rest.
WITH replayed AS (
    SELECT
        r.*,
        coalesce(t.waits, false) AS waits,
        s.category AS kernel_category,
        CASE WHEN r.dims_source IN ('inherited', 'inferred') THEN r.dims_source END AS found,
        r.grade IN ('L0', 'L1') AND (found IS NULL OR r.inferred_id IS NOT NULL) AS fits
    FROM replays AS r
    INNER JOIN signatures AS s USING (signature_id)
    LEFT JOIN replay_routes AS t USING (route)
    WHERE list_contains($run_ids::VARCHAR[], r.run_id)
),

labelled AS (
    SELECT *, kernel_category AS category, route AS shown_route, 0 AS place, true AS own FROM replayed
    UNION ALL
    SELECT *, 'TOTAL', NULL, 3, found IS NULL FROM replayed
    UNION ALL
    SELECT *, 'TOTAL ' || found, NULL, CASE found WHEN 'inherited' THEN 1 ELSE 2 END, true FROM replayed WHERE found IS NOT NULL
),

rows AS (
    SELECT
        l.*,
        l.own AND l.fits AS same,
        l.own AND l.fits AND l.energy_mj IS NOT NULL AS weighed,
        l.grade || ': ' || coalesce(l.reason, 'no call was found that fits') AS why_not,
        sum(l.launches * (l.energy_high_mj - l.energy_low_mj) / 2) FILTER (l.own AND l.fits) OVER item AS item_error,
        sum(l.launches * (l.dynamic_high_mj - l.dynamic_low_mj) / 2) FILTER (l.own AND l.fits) OVER item
            AS item_gap_error,
        row_number() OVER (PARTITION BY l.item_id, l.place, l.category, l.shown_route ORDER BY l.ordinal) = 1 AS first_of_item
    FROM labelled AS l
    WINDOW item AS (PARTITION BY l.item_id, l.place, l.category, l.shown_route)
),

shared AS (
    SELECT
        coalesce(max(launch_loop_power_error_w), 0) AS gap_error_w,
        1.96 * coalesce(max(energy_drift), 0) AS drift_error
    FROM replay_runs
    WHERE list_contains($run_ids::VARCHAR[], run_id)
)

SELECT
    r.category,
    r.shown_route AS route,
    count(DISTINCT r.signature_id) AS signatures,
    sum(r.launches)::BIGINT AS launches,
    try_cast(sum(r.recorded_total_ns) AS BIGINT) AS recorded_ns,
    100 * sum(r.recorded_total_ns) / nullif((SELECT sum(a.recorded_total_ns) FROM replayed AS a), 0) AS share_pct,
    100 * coalesce(sum(r.launches) FILTER (r.own AND r.grade = 'L0'), 0) / sum(r.launches) AS l0_launches_pct,
    100 * coalesce(sum(r.recorded_total_ns) FILTER (r.own AND r.grade = 'L0'), 0) / nullif(sum(r.recorded_total_ns), 0) AS l0_time_pct,
    100 * coalesce(sum(r.recorded_total_ns) FILTER (r.same), 0) / nullif(sum(r.recorded_total_ns), 0) AS l0_l1_time_pct,
    try_cast(sum(r.recorded_total_ns) FILTER (r.same AND r.mean_ns IS NOT NULL AND NOT r.waits) AS BIGINT) AS compared_ns,
    try_cast(sum(r.mean_ns * r.launches) FILTER (r.same AND r.mean_ns IS NOT NULL AND NOT (r.waits AND r.place > 0)) AS BIGINT) AS predicted_ns,
    100 * predicted_ns / compared_ns - 100 AS error_pct,
    sum(r.energy_mj * r.launches) FILTER (r.weighed) AS energy_mj,
    sqrt(
        sum(r.item_error ^ 2) FILTER (r.first_of_item)
        + (any_value(shared.drift_error) * sum(r.dynamic_mj * r.launches) FILTER (r.weighed)) ^ 2
    ) AS energy_error_mj,
    sum(r.dynamic_mj * r.launches) FILTER (r.weighed) AS dynamic_mj,
    sqrt(
        sum(r.item_gap_error ^ 2) FILTER (r.first_of_item)
        + (any_value(shared.drift_error) * sum(r.dynamic_mj * r.launches) FILTER (r.weighed)) ^ 2
        + (any_value(shared.gap_error_w) * sum(r.mean_ns * r.launches) FILTER (r.weighed) / 1e6) ^ 2
    ) AS dynamic_error_mj,
    100 * coalesce(sum(r.recorded_total_ns) FILTER (r.weighed), 0) / nullif(sum(r.recorded_total_ns), 0) AS energy_time_pct,
    nullif(
        concat_ws(
            '; ',
            string_agg(DISTINCT r.why_not, '; ' ORDER BY r.why_not) FILTER (r.own AND NOT r.fits),
            any_value('not compared: recorded with waiting; see kerneldb analyze collectives --replays') FILTER (r.same AND r.waits)
        ),
        ''
    ) AS reasons,
    string_agg(DISTINCT r.energy_reason, '; ' ORDER BY r.energy_reason) FILTER (r.same AND r.energy_mj IS NULL) AS energy_reasons
FROM rows AS r
CROSS JOIN shared
GROUP BY r.place, r.category, r.shown_route
ORDER BY r.place, share_pct DESC, r.category, r.shown_route;
