-- The traces $names (all where it is NULL) with their notes.
FROM trace_overview WHERE $names IS NULL OR list_contains($names, trace);
