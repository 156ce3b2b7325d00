-- The ten conversions that take longest, and in each row the sums of all of them.
WITH chosen AS (
    SELECT k.*, coalesce(f.op, s.op) AS op, coalesce(f.numel, s.numel) AS numel, coalesce(f.input_dtypes, s.input_dtypes) AS input_dtypes
    FROM _kernels AS k
    LEFT JOIN signatures AS s USING (signature_id)
    LEFT JOIN signatures AS f ON k.inferred_id = f.signature_id
    WHERE k.trace = $trace
)

SELECT *, sum(n) OVER ()::BIGINT AS all_n, try_cast(sum(total_ns) OVER () AS BIGINT) AS all_total_ns
FROM precision_conversions('chosen')
ORDER BY total_ns DESC, from_dtype, to_dtype, phase, method
LIMIT 10;
