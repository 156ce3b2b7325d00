WITH chosen AS (FROM kernels WHERE trace = $trace)

FROM fusion_candidates('chosen') LIMIT 10;
