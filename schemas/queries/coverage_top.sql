-- Counter coverage of the selected kernels by trace and signature.
FROM counter_coverage('selection')
ORDER BY total_ns DESC, trace, signature_id;
