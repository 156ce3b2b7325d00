-- The terms of the measured stages of the traces $traces.
FROM closure_terms WHERE list_contains($traces::VARCHAR[], trace);
