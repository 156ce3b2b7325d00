-- Launches and GPU time of the file, and of the traces $names (NULL: all), from what was summed when they came. `chosen` are the
-- rollups of those traces. Times are of what ran, once; `counted` are the launches in them.
SELECT
    (SELECT count(*) FROM traces) AS traces,
    (SELECT sum(launches)::BIGINT FROM traces) AS launches,
    (SELECT try_cast(sum(total_ns) AS BIGINT) FROM kernel_rollups WHERE timing <> 'profiled') AS total_ns,
    (SELECT sum(launches)::BIGINT FROM traces WHERE $names IS NULL OR list_contains($names, name)) AS matched,
    try_cast(sum(total_ns) FILTER (timing <> 'profiled') AS BIGINT) AS matched_ns,
    coalesce(sum(n) FILTER (timing = 'timeline' AND origin = 'launches'), 0)::BIGINT AS counted
FROM chosen;
