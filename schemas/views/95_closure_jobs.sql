-- The measured stages of jobs of several ranks, over all launches.
CREATE OR REPLACE VIEW closure_jobs AS
SELECT * FROM closure_jobs_of('_kernels');
