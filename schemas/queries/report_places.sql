-- The rows of report_wall with what report_marks says of them. `odd_side` is a side that is not a
-- multiple of 8 of a product of 16-bit numbers which takes over 1.6 times what its work needs, and the distance of rows in memory, of the
-- result (n) or of an input (its strides; where they are not known, k): these rows are not aligned to 16 bytes.
SELECT
    w.* EXCLUDE (idle_each),
    CASE
        WHEN w.part = 'computation' AND w.category = 'GEMM' AND w.dtype IN ('fp16', 'bf16') AND coalesce(1.6 * w.needed_ns < w.wall_ns, true)
            THEN list_filter(
                [w.gemm_n, w.gemm_k, w.gemm_m],
                lambda side : side >= 64 AND side % 8 <> 0
                AND (side = w.gemm_n OR coalesce(regexp_matches(w.input_strides, '\b' || side || '\b'), side = w.gemm_k))
            )[1]
    END AS odd_side,
    coalesce(m.line, CASE WHEN w.call IS NULL AND NOT regexp_matches(w.python_line, '(^|/)(torch|triton)/|^<') THEN w.python_line END) AS line,
    m.call_op
FROM found_wall AS w
LEFT JOIN found_marks AS m USING (place);
