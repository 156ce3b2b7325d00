-- The measured stages of the traces or runs $names (of all where it is NULL).
SELECT trace, stage, mode, run, model, gpu, kernels_trace
FROM _closure_stages
WHERE $names IS NULL OR list_contains($names, trace) OR list_contains($names, kernels_trace) OR list_contains($names, run)
ORDER BY trace, stage, mode, run, kernels_trace;
