-- What the launch $launch_index of the trace $trace_id exchanges, and how long it waited for which rank, over all ranks of its job; no row of what is no collective.
WITH chosen AS (SELECT $trace_id AS trace_id),

of_job AS (FROM _launches_of_jobs('chosen'))

SELECT operation, bytes, rank, wait_ns, late_rank
FROM collective_instances('of_job')
WHERE trace_id = $trace_id AND launch_index = $launch_index;
