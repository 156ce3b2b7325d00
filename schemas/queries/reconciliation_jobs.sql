-- The measured workloads of jobs of several ranks.
FROM reconciliation_jobs ORDER BY job, workload, mode;
