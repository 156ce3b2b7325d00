-- The measured workloads of the traces or runs $names (of all where it is NULL).
SELECT trace, workload, mode, run, model, gpu, kernels_trace
FROM _reconciliation_workloads
WHERE $names IS NULL OR list_contains($names, trace) OR list_contains($names, kernels_trace) OR list_contains($names, run)
ORDER BY trace, workload, mode, run, kernels_trace;
