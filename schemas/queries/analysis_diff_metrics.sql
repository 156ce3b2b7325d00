FROM diff_metrics($before, $after);
