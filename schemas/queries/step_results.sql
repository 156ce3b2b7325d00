-- What replayed steps say together: how many calls were rebuilt, sums of kernels against the recording, and the step as a whole.
-- Errors are shares of the recorded time: `error_pct` of those kernels whose time agrees, `total_error_pct` of all (one without a time counts as
-- none), `abs_error_pct` the sum of absolute errors by signature. `again_error_pct` and `again_abs_pct` are the same of another recorded iteration.
WITH signed AS (
    SELECT
        run_id,
        step_id,
        mode,
        signature_id,
        sum(launches) AS launches,
        sum(recorded_ns) AS recorded_ns,
        sum(coalesce(replay_ns, 0)) AS replay_ns,
        sum(replay_ns) FILTER (grade IN ('L0', 'L1') AND NOT disagrees) AS agreeing_ns,
        sum(recorded_ns) FILTER (grade IN ('L0', 'L1') AND NOT disagrees AND replay_ns IS NOT NULL) AS agreed_ns,
        sum(recorded_ns) FILTER (grade = 'L0') AS l0_ns,
        sum(recorded_ns) FILTER (disagrees) AS disagreeing_ns,
        sum(close_ns) AS close_ns,
        any_value(again_ns) AS again_ns
    FROM step_kernels
    WHERE list_contains($run_ids::VARCHAR[], run_id)
    GROUP BY run_id, step_id, mode, signature_id
),

sums AS (
    SELECT
        run_id,
        step_id,
        mode,
        sum(launches)::BIGINT AS launches,
        sum(recorded_ns)::BIGINT AS recorded_ns,
        sum(replay_ns)::BIGINT AS replayed_ns,
        100 * coalesce(sum(l0_ns), 0) / sum(recorded_ns) AS l0_time_pct,
        100 * (sum(agreeing_ns) / nullif(sum(agreed_ns), 0) - 1) AS error_pct,
        100 * (sum(replay_ns) / sum(recorded_ns) - 1) AS total_error_pct,
        100 * sum(abs(replay_ns - recorded_ns)) / sum(recorded_ns) AS abs_error_pct,
        100 * sum(close_ns) / sum(recorded_ns) AS within_10_pct,
        100 * coalesce(sum(disagreeing_ns), 0) / sum(recorded_ns) AS disagrees_pct,
        100 * sum(again_ns - recorded_ns) / nullif(sum(recorded_ns) FILTER (again_ns IS NOT NULL), 0) AS again_error_pct,
        100 * sum(abs(again_ns - recorded_ns)) / nullif(sum(recorded_ns) FILTER (again_ns IS NOT NULL), 0) AS again_abs_pct
    FROM signed
    GROUP BY run_id, step_id, mode
)

SELECT
    t.name AS trace,
    r.iteration,
    r.mode,
    r.method,
    r.calls,
    r.filled,
    r.unplanned,
    s.launches,
    s.recorded_ns,
    s.replayed_ns,
    s.l0_time_pct,
    s.error_pct,
    s.total_error_pct,
    s.abs_error_pct,
    s.within_10_pct,
    s.disagrees_pct,
    s.again_error_pct,
    s.again_abs_pct,
    r.recorded_span_ns,
    r.wall_ns::BIGINT AS wall_ns,
    r.energy_mj,
    r.segments,
    r.uncaptured,
    r.reason
FROM step_replays AS r
LEFT JOIN sums AS s USING (run_id, step_id, mode)
LEFT JOIN traces AS t ON r.recorded_trace = t.trace_id
WHERE list_contains($run_ids::VARCHAR[], r.run_id)
ORDER BY t.name, r.iteration, r.step_id, r.mode DESC;
