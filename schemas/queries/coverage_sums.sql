-- Counter coverage of kernels of which only sums are known.
FROM _counter_coverage('sums')
ORDER BY total_ns DESC, trace, signature_id;
