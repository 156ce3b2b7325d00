SELECT kernel_ns / 1000 AS kernel_us, total_ns / 1000 AS gpu_us, busy_ns / 1000 AS busy_us, span_ns / 1000 AS span_us
FROM gpu_time()
WHERE trace = $trace;
