FROM gpu_time('selection');
