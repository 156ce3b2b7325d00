-- Launches with times in a stretch of a trace: those of $step_ns and more, and the shorter ones summed by stream and by the bin of $step_ns in which they
-- begin: `n` of them, `busy_ns` together, with the name and the call of the longest. $step_ns 0: all one by one.
WITH _cut AS NOT MATERIALIZED (
    SELECT
        l.launch_index,
        l.kind,
        l.device,
        l.stream,
        l.queue,
        l.signature_id,
        l.start_ns,
        l.end_ns - l.start_ns AS duration_ns,
        l.launch_start_ns AS called_ns,
        l.api_index,
        l.op_id
    FROM launches AS l
    INNER JOIN traces AS t USING (trace_id)
    WHERE
        t.name = $trace
        AND l.timing = 'timeline'
        AND coalesce(t.primary_timing, 'timeline') = 'timeline'
        AND l.end_ns >= l.start_ns
        AND l.start_ns < $last_ns
        AND l.end_ns >= $first_ns
),

-- Length and number in one: the largest of pairs takes twice as long.
_summed AS (
    SELECT
        (max(duration_ns::HUGEINT * 1099511627776 + launch_index) % 1099511627776)::BIGINT AS launch_index,
        min(start_ns) AS start_ns,
        max(start_ns + duration_ns) - min(start_ns) AS duration_ns,
        count(*) AS n,
        sum(duration_ns)::BIGINT AS busy_ns
    FROM _cut
    WHERE duration_ns < $step_ns
    GROUP BY device, stream, queue, (start_ns - $first_ns) // $step_ns
),

_items AS (
    SELECT *, 1 AS n, duration_ns AS busy_ns FROM _cut WHERE duration_ns >= $step_ns
    UNION ALL BY NAME
    SELECT c.* REPLACE (s.start_ns AS start_ns, s.duration_ns AS duration_ns), s.n, s.busy_ns
    FROM _summed AS s
    INNER JOIN _cut AS c USING (launch_index)
)

SELECT
    'GPU ' || coalesce(i.device::VARCHAR, '?') AS place,
    CASE
        WHEN i.stream IS NOT NULL THEN 'stream ' || i.stream
        WHEN i.queue IS NOT NULL THEN 'queue ' || i.queue
        ELSE 'stream ?'
    END AS lane,
    n.short_name AS name,
    s.category,
    i.start_ns,
    i.duration_ns,
    i.called_ns,
    i.api_index,
    i.op_id,
    i.n,
    i.busy_ns,
    CASE WHEN i.n = 1 THEN i.signature_id END AS signature
FROM _items AS i
LEFT JOIN signatures AS s USING (signature_id)
LEFT JOIN kernel_names AS n USING (name_id)
ORDER BY place, coalesce(i.stream, i.queue), lane, i.start_ns, i.duration_ns DESC, i.launch_index;
