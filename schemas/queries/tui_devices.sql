-- The kinds of GPU of the traces $names (NULL: all), most traces first.
SELECT coalesce(name, arch) AS device, count(DISTINCT trace_id) AS traces
FROM devices
WHERE (name IS NOT NULL OR arch IS NOT NULL)
  AND ($names IS NULL OR trace_id IN (SELECT traces.trace_id FROM traces WHERE list_contains($names, traces.name)))
GROUP BY coalesce(name, arch)
ORDER BY traces DESC, device;
