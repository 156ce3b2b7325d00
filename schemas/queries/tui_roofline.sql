-- What the screen Roofline shows of `roofline`: of tens of thousands of rows, all columns would take twice the memory.
SELECT
    trace, device, signature_id, kernel, op, category, dtype, n, total_ns, intensity, flops_per_second, bytes_per_second, pct_attainable, bound, ridge,
    peak_flops_per_second, peak_bytes_per_second, method
FROM roofline('selection');
