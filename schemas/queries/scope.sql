-- How many traces there are (those named $names, all where it is NULL), and the GPUs that they ran on.
SELECT
    count(DISTINCT t.trace_id) AS traces,
    list_sort(array_agg(DISTINCT coalesce(d.name, d.arch)) FILTER (coalesce(d.name, d.arch) IS NOT NULL)) AS gpus
FROM traces AS t
LEFT JOIN devices AS d USING (trace_id)
WHERE $names IS NULL OR list_contains($names, t.name);
