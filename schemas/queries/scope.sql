-- How many traces there are (those named $names, all where it is NULL), of which kinds, and the GPUs that they ran on. Where only some traces say so, the list
-- ends with a word about the others.
WITH named AS (
    SELECT t.trace_id, t.kind, coalesce(d.name, d.arch) AS gpu, t.is_primary AND t.trace_id IN (SELECT trace_id FROM rollups) AS has_work
    FROM traces AS t
    LEFT JOIN devices AS d USING (trace_id)
    WHERE $names IS NULL OR list_contains($names, t.name)
)

SELECT
    count(DISTINCT trace_id) AS traces,
    list_sort(array_agg(DISTINCT kind) FILTER (has_work)) AS kinds,
    list_sort(array_agg(DISTINCT gpu) FILTER (gpu IS NOT NULL))
    || CASE WHEN bool_or(gpu IS NULL AND has_work) THEN ['GPUs that are not named'] ELSE [] END AS gpus
FROM named;
