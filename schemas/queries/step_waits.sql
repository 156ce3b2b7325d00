-- How long launches of collectives of a trace waited for other ranks of its job, where the traces of these show it.
WITH job_kernels AS (
    SELECT k.*
    FROM kernels AS k
    INNER JOIN traces AS t ON k.trace = t.name
    INNER JOIN traces AS g ON t.job = g.job
    WHERE g.trace_id = $trace_id
)

SELECT c.launch_index, c.wait_ns
FROM collective_instances('job_kernels') AS c
WHERE c.trace_id = $trace_id AND c.launch_index BETWEEN $first AND $last AND c.wait_ns IS NOT NULL
ORDER BY c.launch_index;
