FROM launch_overhead('selection');
