SELECT
    device, n, span_ns, busy_ns, busy_pct, idle_ns, computation_ns, total_communication_ns, exposed_communication_ns,
    total_memcpy_ns, exposed_memcpy_ns, overlap_ns
FROM gpu_time()
WHERE trace = $trace
ORDER BY device;
