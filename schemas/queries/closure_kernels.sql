-- The signatures of the measured stages of the traces $traces.
FROM closure_kernels WHERE list_contains($traces::VARCHAR[], trace);
