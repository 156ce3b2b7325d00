WITH chosen AS (FROM kernels WHERE trace = $trace)

FROM roofline('chosen') WHERE intensity IS NOT NULL AND flops_per_second > 0 LIMIT 300;
