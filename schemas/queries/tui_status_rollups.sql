-- Launches and GPU time of the file, and of the traces $names (NULL: all), from what was summed when they came. `chosen` are the
-- rollups of those traces. Times count once per run; `counted` are the launches whose times do.
SELECT
    (SELECT count(*) FROM traces) AS traces,
    (SELECT sum(launches)::BIGINT FROM traces) AS launches,
    (SELECT sum(total_ns)::BIGINT FROM kernel_rollups WHERE counted) AS total_ns,
    (SELECT sum(launches)::BIGINT FROM traces WHERE $names IS NULL OR list_contains($names, name)) AS matched,
    (sum(total_ns) FILTER (counted))::BIGINT AS matched_ns,
    coalesce(sum(n) FILTER (counted AND origin = 'launches'), 0)::BIGINT AS counted
FROM chosen;
