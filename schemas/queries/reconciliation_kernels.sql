-- The signatures of the measured workloads of the traces $traces.
FROM reconciliation_kernels WHERE list_contains($traces::VARCHAR[], trace);
