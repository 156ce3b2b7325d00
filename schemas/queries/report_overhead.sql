WITH chosen AS (FROM kernels WHERE trace = $trace)

FROM launch_overhead('chosen') LIMIT 10;
