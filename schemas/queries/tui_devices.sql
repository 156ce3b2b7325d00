-- The kinds of GPU in the file, most traces first.
SELECT coalesce(name, arch) AS device, count(DISTINCT trace_id) AS traces
FROM devices
WHERE name IS NOT NULL OR arch IS NOT NULL
GROUP BY coalesce(name, arch)
ORDER BY traces DESC, device;
