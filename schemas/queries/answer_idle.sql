FROM idle('selection');
