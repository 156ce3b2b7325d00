WITH chosen AS (FROM kernels WHERE trace = $trace)

FROM idle('chosen');
