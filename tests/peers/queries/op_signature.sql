-- Per operator that launched something: how long at least one of its own GPU activities ran. Then per signature.
WITH preceded AS (
    SELECT op_id, input_strides, scalars, start_ns, end_ns, max(end_ns) OVER earlier AS last_end
    FROM kernels
    WHERE trace = $trace AND op = $op AND input_dims = $input_dims AND input_dtypes = $input_dtypes
    WINDOW earlier AS (PARTITION BY op_id ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)

SELECT
    count(DISTINCT op_id) AS count,
    sum(greatest(0, end_ns - greatest(start_ns, coalesce(last_end, start_ns)))) / 1000 AS kernel_us
FROM preceded
GROUP BY input_strides, scalars
ORDER BY kernel_us;
