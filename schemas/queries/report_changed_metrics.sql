SELECT title, metric, unit, n_before, n_after, mean_before, mean_after, delta, delta_pct
FROM diff_metrics($before, $after)
WHERE kernel IS NULL AND title IS NOT NULL;
