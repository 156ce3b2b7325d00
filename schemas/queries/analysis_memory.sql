-- Memory by $key of the named traces (all where $names is NULL).
FROM memory_by($key)
WHERE $names IS NULL OR list_contains($names, trace);
