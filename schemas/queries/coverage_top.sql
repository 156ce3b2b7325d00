-- Counter coverage of the $top kernels of the selection that take most time, by trace and signature (all where NULL).
FROM counter_coverage('selection')
ORDER BY total_ns DESC, trace, signature_id
LIMIT $top;
