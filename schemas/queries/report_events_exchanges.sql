-- The collectives of a trace as its timeline tells them: what each is, and how long it waited for which rank, over all ranks of its job. `instance` is the same
-- for the launches of a collective on all its ranks.
WITH chosen AS (SELECT trace_id FROM traces WHERE name = $trace),

of_job AS (FROM _launches_of_jobs('chosen'))

SELECT
    'GPU ' || coalesce(k.device::VARCHAR, '?') AS place,
    CASE
        WHEN k.stream IS NOT NULL THEN 'stream ' || k.stream
        WHEN k.queue IS NOT NULL THEN 'queue ' || k.queue
        ELSE 'stream ?'
    END AS lane,
    i.start_ns,
    i.rank,
    concat_ws(' ', i.job, i.group_ranks, i.operation, i.collective_seq, i.ordinal) AS instance,
    i.operation,
    i.dtype,
    i.bytes,
    i.group_ranks,
    i.group_size,
    i.transfer_ns,
    i.wait_ns,
    i.late_rank,
    i.transfer_bus_gbs
FROM collective_instances('of_job') AS i
INNER JOIN of_job AS k USING (trace_id, launch_index)
WHERE i.trace = $trace
ORDER BY i.start_ns, i.launch_index
LIMIT 50001;
