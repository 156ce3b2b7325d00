-- The jobs of several ranks that are called $names (all where it is NULL), by themselves, their run or one of their traces.
SELECT j.*
FROM closure_jobs_of('selection') AS j
WHERE
    $names IS NULL
    OR list_contains($names, j.job)
    OR list_contains($names, j.run)
    OR EXISTS (SELECT 1 FROM traces AS t WHERE t.job = j.job AND list_contains($names, t.name));
