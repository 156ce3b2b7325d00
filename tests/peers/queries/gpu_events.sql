SELECT count(*) AS n FROM kernels WHERE trace = $trace;
