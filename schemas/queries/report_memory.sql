-- What allocated memory, and what held it when most was in use: by the outermost operator.
SELECT m.*, m.peak_ns - t.launches_start_ns AS at_ns
FROM memory_by('root_op') AS m
INNER JOIN traces AS t ON t.name = m.trace
WHERE m.trace = $trace
ORDER BY m.device_peak_bytes DESC NULLS LAST, m.process, m.device_type, m.device, m.at_peak_bytes DESC NULLS LAST, m.allocated_bytes DESC, m.name
LIMIT 40;
