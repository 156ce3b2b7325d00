SELECT short_name AS kernel, name, n FROM top_kernels() WHERE trace = $trace AND timing <> 'profiled' ORDER BY total_ns DESC, name_id LIMIT 60;
