-- The launches of the selection with times of one clock for all ranks of a job: the median of how collectives end on a rank and on the first one is what
-- its clock differs by (without common collectives the start of the traces). `run` numbers them by start; `late_run` came last to the same collective, `transfer_ns`
-- is what the collective takes from then on. `call_run` is the first launch of the same call.
WITH chosen AS MATERIALIZED (
    SELECT
        coalesce(t.job, l.trace) AS job, t.rank, t.base_ns, l.trace, l.trace_id, l.launch_index, l.process, l.device, l.context, l.stream, l.kind, l.copy_kind,
        l.category, l.short_name, l.op, l.module, l.python_line, l.start_ns, greatest(l.start_ns, l.end_ns) AS end_ns, l.api_index, l.launch_start_ns
    FROM selection AS l
    INNER JOIN traces AS t USING (trace_id)
    WHERE l.timing = 'timeline' AND l.start_ns IS NOT NULL AND l.end_ns IS NOT NULL
),

joined AS MATERIALIZED (
    SELECT *, md5(concat_ws(' ', group_ranks, operation, collective_seq, ordinal)) AS instance
    FROM collective_instances('selection')
    WHERE wait_ns IS NOT NULL
),

first_ranks AS (
    SELECT job, arg_min(trace_id, (coalesce(rank, 0), trace)) AS trace_id, arg_min(base_ns, (coalesce(rank, 0), trace)) AS base_ns FROM chosen GROUP BY job
),

shifts AS (
    SELECT c.trace_id, coalesce(any_value(s.shift_ns), any_value(f.base_ns) - any_value(c.base_ns), 0)::BIGINT AS shift_ns
    FROM chosen AS c
    INNER JOIN first_ranks AS f USING (job)
    LEFT JOIN (
        SELECT j.trace_id, quantile_disc(j.start_ns + j.duration_ns - r.start_ns - r.duration_ns, 0.5) AS shift_ns
        FROM joined AS j
        INNER JOIN joined AS r ON j.job = r.job AND j.instance = r.instance
        WHERE r.trace_id IN (SELECT trace_id FROM first_ranks)
        GROUP BY j.trace_id
    ) AS s ON c.trace_id = s.trace_id
    GROUP BY c.trace_id
),

numbered AS (
    SELECT
        row_number() OVER (ORDER BY c.job, c.start_ns - s.shift_ns, c.trace_id, c.launch_index) AS run,
        c.* REPLACE (c.start_ns - s.shift_ns AS start_ns, c.end_ns - s.shift_ns AS end_ns, c.launch_start_ns - s.shift_ns AS launch_start_ns),
        s.shift_ns,
        dense_rank() OVER (ORDER BY c.trace_id, c.device, c.context, c.stream) AS place
    FROM chosen AS c
    INNER JOIN shifts AS s USING (trace_id)
)

SELECT
    n.* EXCLUDE (rank, base_ns),
    CASE
        WHEN n.launch_start_ns IS NOT NULL
            THEN min(n.run) OVER (PARTITION BY n.trace_id, n.process, n.api_index, n.launch_start_ns)
    END AS call_run,
    j.transfer_ns,
    arg_min(n.run, (j.duration_ns, j.rank, j.trace)) FILTER (j.instance IS NOT NULL) OVER (PARTITION BY n.job, j.instance) AS late_run
FROM numbered AS n
LEFT JOIN joined AS j ON n.trace_id = j.trace_id AND n.launch_index = j.launch_index
ORDER BY n.run;
