-- When kernels, operators, modules, causes of wall time and energy changed for good over the commits of a program, and why.
--
-- Traces enter the history with their commit (`kerneldb ingest --commit`). Changes are those of history_changes with the series that they belong to.
--
-- Columns:
--   workload, branch, device_name, rank: as in history_runs
--   happened_at: as in history_runs
--   first_commit, last_commit, subject, name, before_value, after_value, change_pct, low_pct, high_pct, impact_ns, cause, detail: as in history_changes
--   culprit VARCHAR: The kernel that changed most at this place, for the program's own causes.
--   later_pct DOUBLE [%]: Sum of later changes of the same subject that the program caused: about the opposite of change_pct where the change was
--     taken back.
--   p_value, runs_before, runs_after, noise_pct, trace_id, before_trace_id, series_id: as in history_changes
-- Example:
--   SELECT happened_at, first_commit, last_commit, subject, name, change_pct, cause FROM kernel_history ORDER BY happened_at DESC;
CREATE OR REPLACE VIEW kernel_history AS
WITH placed AS (
    SELECT
        series_id,
        trace_id,
        workload,
        branch,
        device_name,
        rank,
        happened_at,
        row_number() OVER (PARTITION BY series_id ORDER BY happened_at, recorded_at, trace_id) AS place
    FROM history_runs
),

joined AS (
    SELECT c.*, r.workload, r.branch, r.device_name, r.rank, r.happened_at, r.place, c.cause IN ('code', 'launches') AS is_own
    FROM history_changes AS c
    INNER JOIN placed AS r ON c.series_id = r.series_id AND c.trace_id = r.trace_id
)

SELECT
    workload,
    branch,
    device_name,
    rank,
    happened_at,
    first_commit,
    last_commit,
    subject,
    name,
    before_value,
    after_value,
    change_pct,
    low_pct,
    high_pct,
    impact_ns,
    cause,
    detail,
    arg_max(name, abs(impact_ns)) FILTER (subject = 'kernel' AND is_own)
        OVER (PARTITION BY series_id ORDER BY place RANGE BETWEEN 2 PRECEDING AND 2 FOLLOWING) AS culprit,
    coalesce(
        sum(CASE WHEN is_own THEN change_pct END)
            OVER (PARTITION BY series_id, subject, name ORDER BY place ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), 0
    ) AS later_pct,
    p_value,
    runs_before,
    runs_after,
    noise_pct,
    trace_id,
    before_trace_id,
    series_id
FROM joined;
