SELECT name, total_ns / 1000 AS us, n FROM top_kernels() WHERE trace = $trace AND kind = 'kernel' ORDER BY total_ns DESC LIMIT 3;
