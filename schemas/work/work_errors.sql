-- How good the models of work are: what they say of kernels whose operations and bytes were counted, per category and model.
--
-- Sums are over the launches of the selection. Modelled bytes are those that a kernel has to move once, counted ones those of DRAM: what the L2 keeps
-- is not counted, what is read twice is counted twice.
--
-- Arguments:
--   source: A relation with the columns of `kernels`.
-- Columns:
--   category VARCHAR: Category of the kernels; TOTAL in the last row.
--   work_method: as in roofline
--   signatures BIGINT: Distinct kernels with counters and a model.
--   n, total_ns: as in kernel_rollups
--   flops DOUBLE [FLOP]: Counted operations, of the kernels with modelled ones.
--   modelled_flops DOUBLE [FLOP]: Modelled operations of the same kernels.
--   flops_error_pct DOUBLE [%]: Modelled against counted operations.
--   flops_median_pct DOUBLE [%]: Median over the kernels of the error without its sign.
--   moved_bytes DOUBLE [bytes]: Counted bytes of DRAM.
--   modelled_bytes DOUBLE [bytes]: Modelled bytes of the same kernels.
--   bytes_error_pct DOUBLE [%]: Modelled against counted bytes.
--   bytes_median_pct DOUBLE [%]: Median over the kernels of the error without its sign.
-- Example:
--   SELECT category, work_method, flops_error_pct, bytes_error_pct FROM work_errors();
CREATE OR REPLACE MACRO work_errors(source := 'kernels') AS TABLE
WITH _counted AS (
    SELECT
        category,
        work_method,
        signature_id,
        n,
        total_ns,
        CASE WHEN modelled_flops > 0 AND flops > 0 THEN flops * n END AS flops,
        CASE WHEN modelled_flops > 0 AND flops > 0 THEN modelled_flops * n END AS modelled_flops,
        CASE WHEN modelled_bytes > 0 AND moved_bytes > 0 THEN moved_bytes * n END AS moved_bytes,
        CASE WHEN modelled_bytes > 0 AND moved_bytes > 0 THEN modelled_bytes * n END AS modelled_bytes
    FROM roofline(source)
    WHERE method IN ('counters', 'counters of a replay') AND work_method IS NOT NULL
)

SELECT
    coalesce(category, 'TOTAL') AS category,
    work_method,
    count(DISTINCT signature_id) AS signatures,
    sum(n)::BIGINT AS n,
    try_cast(sum(total_ns) AS BIGINT) AS total_ns,
    sum(flops) AS flops,
    sum(modelled_flops) AS modelled_flops,
    100 * sum(modelled_flops) / sum(flops) - 100 AS flops_error_pct,
    median(abs(100 * modelled_flops / flops - 100)) AS flops_median_pct,
    sum(moved_bytes) AS moved_bytes,
    sum(modelled_bytes) AS modelled_bytes,
    100 * sum(modelled_bytes) / sum(moved_bytes) - 100 AS bytes_error_pct,
    median(abs(100 * modelled_bytes / moved_bytes - 100)) AS bytes_median_pct
FROM _counted
GROUP BY GROUPING SETS ((category, work_method), ())
HAVING count(*) > 0
ORDER BY grouping(category), total_ns DESC, category, work_method;
