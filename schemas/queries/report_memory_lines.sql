-- The same by the Python line; without rows where no allocation has one.
SELECT m.*
FROM memory_by('python_line') AS m
WHERE m.trace = $trace AND m.name IS NOT NULL AND m.allocations > 0
ORDER BY m.device_peak_bytes DESC NULLS LAST, m.process, m.device_type, m.device, m.at_peak_bytes DESC NULLS LAST, m.allocated_bytes DESC, m.name
LIMIT 40;
