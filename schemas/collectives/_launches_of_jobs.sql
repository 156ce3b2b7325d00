-- The launches that exchange something between GPUs, of all ranks of the jobs that the traces of `source` (names a relation with trace_id) belong to; of a
-- trace of no job its own. One rank alone does not show who waited for whom. The view `kernels` is what the asking connection means by it.
CREATE OR REPLACE MACRO _launches_of_jobs(source) AS TABLE
SELECT *
FROM kernels
WHERE
    category = 'COMMUNICATION'
    AND trace_id IN (
        SELECT o.trace_id
        FROM traces AS t
        INNER JOIN traces AS o ON t.trace_id = o.trace_id OR t.job = o.job
        WHERE t.trace_id IN (SELECT trace_id FROM query_table(source))
    );
