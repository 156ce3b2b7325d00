-- How many launches `selection` holds, and their GPU time, each counted once per run.
SELECT count(*) AS matched, (sum(duration_ns) FILTER (timing = 'timeline' AND counted))::BIGINT AS matched_ns
FROM selection;
