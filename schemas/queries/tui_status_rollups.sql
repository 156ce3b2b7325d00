-- Launches and GPU time of the traces $names (NULL: all), from what was summed when they came. Times count once per run.
SELECT
    count(*) AS traces,
    sum(t.launches)::BIGINT AS launches,
    sum(r.total_ns)::BIGINT AS total_ns,
    sum(t.launches) FILTER ($names IS NULL OR list_contains($names, t.name))::BIGINT AS matched,
    sum(r.total_ns) FILTER ($names IS NULL OR list_contains($names, t.name))::BIGINT AS matched_ns
FROM traces AS t
LEFT JOIN (
    SELECT trace_id, sum(total_ns)::BIGINT AS total_ns FROM kernel_rollups WHERE counted GROUP BY trace_id
) AS r USING (trace_id);
