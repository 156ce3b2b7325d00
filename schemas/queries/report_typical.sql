SELECT median(duration_ns) AS median_kernel_ns FROM _kernels WHERE trace = $trace AND timing = 'timeline' AND kind = 'kernel';
