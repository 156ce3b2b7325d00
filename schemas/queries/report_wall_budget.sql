WITH chosen AS (FROM kernels WHERE trace = $trace)

FROM wall_time_budget('chosen');
