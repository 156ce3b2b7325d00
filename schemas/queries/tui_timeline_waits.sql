-- What the launch $launch_index of the trace $trace_id exchanges, and how long it waited for which rank, over all ranks of its job; no row of what is no collective.
WITH of_job AS (
    SELECT *
    FROM kernels
    WHERE
        category = 'COMMUNICATION'
        AND trace_id IN (
            SELECT o.trace_id
            FROM traces AS t
            INNER JOIN traces AS o ON t.trace_id = o.trace_id OR t.job = o.job
            WHERE t.trace_id = $trace_id
        )
)

SELECT operation, bytes, rank, wait_ns, late_rank
FROM collective_instances('of_job')
WHERE trace_id = $trace_id AND launch_index = $launch_index;
