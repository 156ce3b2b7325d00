-- How many launches `selection` holds, how many of them enter sums of time, and their GPU time, each counted once per run.
SELECT
    count(*) AS matched,
    count(*) FILTER (timing = 'timeline' AND counted) AS counted,
    (sum(duration_ns) FILTER (timing = 'timeline' AND counted))::BIGINT AS matched_ns
FROM selection;
