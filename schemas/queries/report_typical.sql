SELECT median(duration_ns) AS median_kernel_ns FROM kernels WHERE trace = $trace AND timing = 'timeline';
