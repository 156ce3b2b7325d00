FROM idle_gaps('selection') ORDER BY gap_ns DESC, trace, device, gap_start_ns;
