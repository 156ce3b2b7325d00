-- The series of the history, each with its runs.
SELECT
    series_id,
    workload,
    branch,
    device_name,
    rank,
    count(*) AS runs,
    min(happened_at) AS first_at,
    max(happened_at) AS last_at,
    arg_max(commit, happened_at) AS last_commit,
    count(*) FILTER (scanned IS DISTINCT FROM $version) AS due
FROM history_runs
WHERE ($workload IS NULL OR workload = $workload) AND ($branch IS NULL OR branch = $branch)
GROUP BY series_id, workload, branch, device_name, rank
ORDER BY workload, branch, runs DESC, device_name, rank;
