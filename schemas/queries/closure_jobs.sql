-- The measured stages of jobs of several ranks.
FROM closure_jobs ORDER BY job, stage, mode;
