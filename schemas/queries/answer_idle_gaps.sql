FROM idle_gaps('selection');
