-- What is spent on changing the type of numbers, by the types before and after.
--
-- Launches that do nothing else: by the types that the operator call recorded, else by the name of the kernel.
--
-- Columns:
--   trace: as in kernels
--   from_dtype VARCHAR: Element type before the conversion.
--   to_dtype VARCHAR: Element type after the conversion.
--   phase: as in kernels
--   n, total_ns: as in kernel_rollups
--   elements BIGINT: Number of elements converted.
--   kernel: as in roofline
--   method VARCHAR: How it was found.
-- Example:
--   SELECT from_dtype, to_dtype, n, total_ns FROM precision_conversions();
CREATE OR REPLACE MACRO precision_conversions(source := 'kernels') AS TABLE
WITH _copies AS (
    SELECT
        trace,
        op,
        short_name,
        duration_ns,
        numel,
        phase,
        from_json(input_dtypes, '["VARCHAR"]') AS dtypes,
        nullif(regexp_extract(name, '(bfloat16|float16|float8_\w+|float32|double)_copy_kernel', 1), '') AS named
    FROM query_table(source)
    WHERE
        timing = 'timeline' AND kind = 'kernel'
        AND (op IN ('aten::copy_', 'aten::_to_copy', 'aten::to') OR (op IS NULL AND regexp_matches(name, '_copy_kernel')))
),

_typed AS (
    SELECT *, CASE WHEN op = 'aten::copy_' THEN dtypes[2] END AS from_dtype, CASE WHEN op = 'aten::copy_' THEN dtypes[1] END AS to_dtype
    FROM _copies
)

SELECT
    trace,
    from_dtype,
    coalesce(to_dtype, named) AS to_dtype,
    phase,
    count(*) AS n,
    try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
    sum(numel)::BIGINT AS elements,
    min(short_name) AS kernel,
    CASE WHEN to_dtype IS NULL THEN 'kernel name' ELSE 'operator call' END AS method
FROM _typed
WHERE from_dtype IS DISTINCT FROM to_dtype OR (to_dtype IS NULL AND named IS NOT NULL)
GROUP BY ALL
ORDER BY total_ns DESC, trace, from_dtype, to_dtype, phase, method;
