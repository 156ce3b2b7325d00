SELECT sum(n)::BIGINT AS n FROM top_kernels() WHERE trace = $trace AND category = 'COMMUNICATION' AND name LIKE 'ncclKernel%';
