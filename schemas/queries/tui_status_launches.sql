-- How many launches `selection` holds, how many of them are of a timeline and enter sums of time, and their GPU time.
SELECT
    count(*) AS matched,
    count(*) FILTER (timing = 'timeline') AS counted,
    try_cast(sum(duration_ns) FILTER (timing = 'timeline') AS BIGINT) AS matched_ns
FROM selection;
