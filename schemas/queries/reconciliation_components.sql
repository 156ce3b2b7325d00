-- The components of the measured workloads of the traces $traces.
FROM reconciliation_components WHERE list_contains($traces::VARCHAR[], trace);
