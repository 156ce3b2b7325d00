-- The launches of a trace in the order in which they ran, stream by stream, with what is known of their size.
SELECT
    l.launch_index,
    l.process,
    l.device,
    l.stream,
    l.start_ns,
    l.duration_ns,
    coalesce(l.phase, t.default_phase) AS phase,
    l.timing,
    t.source,
    l.signature_id,
    s.kind,
    n.name,
    s.grid_x,
    s.grid_y,
    s.grid_z,
    s.block_x,
    s.block_y,
    s.block_z,
    s.total_blocks,
    s.threads_per_block,
    l.shared_bytes,
    l.registers,
    s.bytes,
    s.copy_kind,
    c.dram_bytes AS moved_bytes,
    CASE WHEN s.level = 'call' THEN s.call_id END AS call_id
FROM launches AS l
INNER JOIN traces AS t USING (trace_id)
INNER JOIN signatures AS s USING (signature_id)
INNER JOIN kernel_names AS n USING (name_id)
LEFT JOIN (
    SELECT signature_id, median(value) AS dram_bytes
    FROM (
        SELECT coalesce(m.signature_id, k.signature_id) AS signature_id, m.launch_index, sum(m.value) AS value
        FROM launch_metrics AS m
        LEFT JOIN launches AS k ON m.trace_id = k.trace_id AND m.launch_index = k.launch_index
        WHERE m.trace_id = $trace_id AND m.metric IN ('dram__bytes_read.sum', 'dram__bytes_write.sum') AND m.instance IS NULL
        GROUP BY ALL
        HAVING count(DISTINCT m.metric) = 2
    )
    GROUP BY signature_id
) AS c USING (signature_id)
WHERE l.trace_id = $trace_id
ORDER BY l.process, l.device, l.stream, l.start_ns, l.launch_index
LIMIT $most;
