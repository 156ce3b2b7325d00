SELECT * FROM gpu_time() WHERE trace = $trace;
