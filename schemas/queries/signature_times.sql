-- Launches of the signature $signature_id per trace and phase.
SELECT
    t.name AS trace,
    l.phase,
    count(*) AS n,
    sum(l.duration_ns)::BIGINT AS total_ns,
    avg(l.duration_ns) AS mean_ns,
    median(l.duration_ns) AS median_ns,
    min(l.duration_ns) AS min_ns,
    max(l.duration_ns) AS max_ns,
    max(l.registers) AS registers,
    max(l.shared_bytes) AS shared_bytes,
    max(l.occupancy) AS occupancy
FROM launches AS l
INNER JOIN traces AS t USING (trace_id)
WHERE l.signature_id = $signature_id
GROUP BY t.name, l.phase
ORDER BY t.name, total_ns DESC;
