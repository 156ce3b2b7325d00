-- The ids of the traces $names.
SELECT trace_id FROM traces WHERE list_contains($names, name);
