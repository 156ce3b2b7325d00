WITH chosen AS (FROM kernels WHERE trace = $trace)

FROM collectives('chosen') LIMIT 20;
