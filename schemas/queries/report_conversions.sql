WITH chosen AS (FROM kernels WHERE trace = $trace)

FROM precision_conversions('chosen') LIMIT 10;
