-- What replayed steps say together: how many calls were rebuilt, sums of kernels against the recording, and the step as a whole.
-- Errors are shares of the recorded time: `error_pct` of those kernels whose time agrees, `total_error_pct` of all (one without a time, or without
-- a call, counts as none), `abs_error_pct` the sum of absolute errors by signature. `again_error_pct` and `again_abs_pct` are the same of another recorded iteration.
-- Of collectives that several ranks ran at once all of these are of the transfer; `waited_ns` (recorded) and `wait_ns` are what they waited for others.
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
        any_value(again_ns) AS again_ns,
        sum(waited_ns) AS waited_ns,
        sum(wait_ns) AS wait_ns
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
        sum(recorded_ns) AS recorded_ns,
        sum(replay_ns) AS replay_ns,
        sum(l0_ns) AS l0_ns,
        sum(agreeing_ns) AS agreeing_ns,
        sum(agreed_ns) AS agreed_ns,
        sum(abs(replay_ns - recorded_ns)) AS off_ns,
        sum(close_ns) AS close_ns,
        sum(disagreeing_ns) AS disagreeing_ns,
        sum(again_ns - recorded_ns) AS again_error_ns,
        sum(abs(again_ns - recorded_ns)) AS again_off_ns,
        sum(recorded_ns) FILTER (again_ns IS NOT NULL) AS repeated_ns,
        sum(waited_ns) AS waited_ns,
        sum(wait_ns) AS wait_ns
    FROM signed
    GROUP BY run_id, step_id, mode
)

SELECT
    t.name AS trace,
    r.iteration,
    r.mode,
    r.method,
    r.calls_from,
    r.ranks,
    r.calls,
    r.filled,
    s.launches + r.unplanned AS launches,
    r.unplanned,
    (s.recorded_ns + r.unplanned_ns)::BIGINT AS recorded_ns,
    s.replay_ns::BIGINT AS replayed_ns,
    100 * coalesce(s.l0_ns, 0) / (s.recorded_ns + r.unplanned_ns) AS l0_time_pct,
    100 * (s.agreeing_ns / nullif(s.agreed_ns, 0) - 1) AS error_pct,
    100 * (s.replay_ns / (s.recorded_ns + r.unplanned_ns) - 1) AS total_error_pct,
    100 * (s.off_ns + r.unplanned_ns) / (s.recorded_ns + r.unplanned_ns) AS abs_error_pct,
    100 * s.close_ns / (s.recorded_ns + r.unplanned_ns) AS within_10_pct,
    100 * coalesce(s.disagreeing_ns, 0) / (s.recorded_ns + r.unplanned_ns) AS disagrees_pct,
    100 * s.again_error_ns / nullif(s.repeated_ns, 0) AS again_error_pct,
    100 * s.again_off_ns / nullif(s.repeated_ns, 0) AS again_abs_pct,
    s.waited_ns::BIGINT AS waited_ns,
    s.wait_ns::BIGINT AS wait_ns,
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
