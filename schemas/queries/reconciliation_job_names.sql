-- The jobs of the traces $names.
SELECT DISTINCT job FROM traces WHERE list_contains($names::VARCHAR[], name) AND job IS NOT NULL;
